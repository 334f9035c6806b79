"""What privacy costs against the best search without it: `python -m benchmarks.frontier`, docs/frontier.md."""
