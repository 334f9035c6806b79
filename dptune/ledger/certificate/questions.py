"""NIST SP 800-226's factors of a guarantee, as questions: what a statement answers, and what its user must answer.

The questions are in words of our own. Their order is that of the publication's pyramid, from its top to its base: a
layer protects as far as those below it do (J. Near, D. Darais, N. Lefkovitz, G. Howarth, Guidelines for Evaluating
Differential Privacy Guarantees, NIST SP 800-226, 2025). Each names one of the hazards that the publication warns of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dptune._numbers import rounded_up
from dptune._statement import Statement
from dptune.ledger.certificate.risk import Risk

PYRAMID = (  # from the top
    "privacy parameters",
    "unit of privacy",
    "algorithms and correctness",
    "utility",
    "bias",
    "trust models",
    "side channels",
    "access control",
    "data collection exposure",
)


@dataclass(frozen=True)
class Item:
    """One question.

    Attributes:
        factor: the layer of the guarantee that it is about, one of :data:`PYRAMID`.
        question: in words.
        answer: what the statement says; empty where its user must answer.
    """

    factor: str
    question: str
    answer: str = ""

    def __str__(self) -> str:
        box, answer = ("[x]", self.answer) if self.answer else ("[ ]", "FOR YOU TO ANSWER")
        return f"{box} {self.factor}: {self.question}\n      {answer}"


YOURS = (
    Item(
        "privacy parameters",
        "What else was or will be released about the same people, with differential privacy or without, and what does "
        "all of it add up to?",
    ),
    Item("unit of privacy", "Does one unit hold all that a person contributed, or may a person be several units?"),
    Item(
        "algorithms and correctness",
        "Were search space, clipping bounds and settings chosen without looking at the private rows?",
    ),
    Item(
        "algorithms and correctness",
        "Was the user's own objective audited (`dptune audit`)? An audit finds errors and proves no guarantee.",
    ),
    Item("utility", "Is the recommended configuration good enough for its use, with the interval that was released?"),
    Item("bias", "Is it good enough for small groups of people, whom noise hits harder?"),
    Item(
        "bias", "Do its readers know that losses are clipped, which shifts a mean, and that noise may make it negative?"
    ),
    Item("trust models", "Who can reach the process and the machine, and why are they trusted?"),
    Item(
        "side channels",
        "Can anybody outside measure how long trials take, how much memory they need, or why one failed?",
    ),
    Item(
        "access control",
        "Who can read the raw rows? Who can replace the ledger, and where is its mark or receipt kept?",
    ),
    Item("data collection exposure", "Should these rows be held at all, and until when?"),
)


def checklist(statement: Statement) -> Sequence[Item]:
    """Return the questions, from the pyramid's top to its base; of a layer first those that the statement answers."""
    items = (*_answered(statement), *YOURS)
    return [item for factor in PYRAMID for item in items if item.factor == factor]


def _answered(statement: Statement) -> Iterator[Item]:
    epsilon = f"epsilon = {rounded_up(statement.epsilon)} at delta = {rounded_up(statement.delta, 6)}"
    yield Item("privacy parameters", "How much can one person lose?", f"{epsilon}. {Risk.of_statement(statement)}")
    yield Item("privacy parameters", "Is delta small enough?", _delta(statement))
    yield Item("privacy parameters", "Which guarantee was proved, and how do releases add up?", statement.accountant)
    yield Item(
        "privacy parameters",
        "What must be said with the numbers?",
        " ".join(statement.caveats) or "nothing more",
    )
    yield Item("unit of privacy", "Who is protected?", statement.protects)
    yield Item("unit of privacy", "Which data sets must look alike?", statement.adjacency)
    used = "; ".join(f"{name} ({count})" for name, count in statement.mechanisms) or "none so far"
    yield Item("algorithms and correctness", "Which mechanisms, and how often?", used)
    yield Item("algorithms and correctness", "How is noise drawn?", statement.noise)
    yield Item("algorithms and correctness", "What is not covered?", "; ".join(statement.not_covered))
    yield Item("trust models", "Who must be trusted with the rows?", statement.trust_model)


def _delta(statement: Statement) -> str:
    """The publication's measure: delta should not exceed 1/n^2, nor a hundred thousandth."""
    if statement.delta == 0:
        return "delta = 0"
    n, most = statement.n, 1e-5 if statement.n is None else min(1e-5, statement.n**-2.0)
    measure = "1e-05" if n is None else f"1/n^2 = {n**-2.0:.3g} and 1e-05"
    fits = "not above" if statement.delta <= most else "ABOVE one of the usual limits"
    return f"delta = {rounded_up(statement.delta, 6)} is {fits} ({measure}); `--delta` gives epsilon at a smaller one"
