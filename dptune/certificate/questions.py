"""NIST SP 800-226's factors of a guarantee, as questions: what a statement answers, and what its user must answer.

The questions are in words of our own. The factors are those of the publication's pyramid: a claim is as good as the
layers below it (J. Near, D. Darais, N. Lefkovitz, G. Howarth, Guidelines for Evaluating Differential Privacy
Guarantees, NIST SP 800-226, 2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dptune._numbers import rounded_up
from dptune.accounting.statement import LedgerStatement
from dptune.certificate.risk import Risk

YOURS = (
    ("composition", "What else was or will be released about the same people, and what does all of it add up to?"),
    ("composition", "Were search space, clipping bounds and settings chosen without looking at the private rows?"),
    ("utility", "Is the recommended configuration good enough, and for small groups of people as well?"),
    ("trust model", "Who can reach the process, the machine and the rows, and why are they trusted?"),
    ("side channels", "Can anybody outside measure how long trials take, or how much memory they need?"),
    ("security", "Who can read or replace the ledger, and where is a mark or a receipt of it kept?"),
    ("data collection", "Should these rows be held at all, and until when?"),
)


@dataclass(frozen=True)
class Item:
    """One question.

    Attributes:
        factor: the layer of the guarantee that it is about.
        question: in words.
        answer: what the statement says; empty where its user must answer.
    """

    factor: str
    question: str
    answer: str = ""

    def __str__(self) -> str:
        box, answer = ("[x]", self.answer) if self.answer else ("[ ]", "FOR YOU TO ANSWER")
        return f"{box} {self.factor}: {self.question}\n      {answer}"


def checklist(statement: LedgerStatement) -> Sequence[Item]:
    """Return the questions, first those that the statement answers."""
    epsilon = f"epsilon = {rounded_up(statement.epsilon)} at delta = {rounded_up(statement.delta, 6)}"
    known = (
        ("privacy parameter", "How much can one person lose?", f"{epsilon}. {Risk.of_statement(statement)}"),
        ("unit of privacy", "Who is protected?", statement.protects),
        ("unit of privacy", "Which data sets must look alike?", statement.adjacency),
        ("composition", "How are releases added up?", statement.accountant),
        ("composition", "How many were made?", f"{statement.releases}, each charged before any row was read for it"),
        ("algorithm", "Which mechanisms?", "; ".join(f"{m} ({k})" for m, k in statement.mechanisms) or "none so far"),
        ("trust model", "Who must be trusted with the rows?", statement.trust_model),
        ("implementation", "How is noise drawn?", statement.noise),
        ("limits", "What must be said with the numbers?", " ".join(statement.caveats) or "nothing more"),
        ("limits", "What is not covered?", "; ".join(statement.not_covered)),
    )
    return [Item(*each) for each in known] + [Item(*each) for each in YOURS]
