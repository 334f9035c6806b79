"""Reports of final models that may be published: :func:`dptune.report`, and what it returns."""
