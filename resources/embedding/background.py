"""Measure a model's scale of cosines: what it gives to unrelated texts, and to a question and the passage that answers it.

Models differ greatly: some put unrelated texts near 0, others near 0.75, where a raw cosine can neither be combined with other
scores nor be compared with a threshold. Everything that weighs a cosine measures it on this scale, so that a weight and a threshold
mean the same with every model. The texts are fixed, not taken from the index: a scale made of documents would let documents that a
caller may not read change what the caller is shown.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

HIGHEST = 0.95
"""A higher floor would leave no range for related texts; no useful model is above it."""
NARROWEST = 0.02
"""Least distance of related texts from the floor; a model below it distinguishes nothing."""

PROBES = (
    "How long do I have to hand in receipts for a business trip?",
    "The glacier has retreated by forty metres since the last survey.",
    "Preheat the oven and knead the dough until it is smooth.",
    "reset a forgotten password",
    "The violin concerto was first performed in a small hall beside the river.",
    "Quarterly revenue rose by nine percent, driven by renewals.",
    "Bees tell each other with a dance where the flowers are.",
    "An integer overflow in the parser lets a remote attacker run code.",
    "lease agreement for the warehouse",
    "The patient was given antibiotics and discharged after two days.",
    "Goalkeeper saves penalty in the last minute of the match.",
    "Steel beams of this profile carry twelve tonnes over a span of six metres.",
    "Which trains go to the coast on Sundays?",
    "The treaty ended a war that had lasted thirty years.",
    "sunflower seeds, sowing depth and distance",
    "She painted the ceiling blue, with stars of gold leaf.",
    "Backups are kept for ninety days and tested every month.",
    "Saturn's rings consist mostly of ice.",
    "He would not forgive his brother until the winter of that year.",
    "The committee adjourned without a vote on the new school.",
)
"""Unrelated sentences and search terms, more dissimilar than the texts of one company usually are."""

ANSWERED = (
    (
        "Can I get my money back if the shoes don't fit?",
        "Unworn goods are refunded within 14 days in their original box.",
    ),
    (
        "Who do I ask when the heating is broken?",
        "Report faults of the building to the caretaker, extension 40, before noon.",
    ),
    ("Is it okay to bring my dog?", "Animals other than guide dogs have to stay outside the premises."),
    ("How do I change my password?", "Open Account, choose Security, and enter the old and the new passphrase twice."),
    ("What if I miss the submission date?", "Applications that arrive after 1 March are considered in the next round."),
    ("Do trainees earn anything?", "Apprentices receive 950 a month in the first year and 1,100 in the second."),
    ("Why was the launch delayed?", "The rocket stayed on the ground because a valve of the second stage leaked."),
    (
        "How warm should the room be for the test?",
        "Samples are conditioned at 20 to 23 degrees before they are measured.",
    ),
    ("Are we insured if a truck is stolen?", "The policy covers theft of vehicles that were locked on company ground."),
    ("Which product sells best?", "Of all articles the folding table brought in the largest share of turnover."),
    ("May I do the exam at home?", "Candidates sit the test in one of our centres; there is no remote option."),
    ("How long do you hold on to our records?", "Customer files are erased five years after the last invoice."),
    ("What went wrong with the backup in spring?", "In April the nightly copy stopped because the disk was full."),
    ("Who is in charge while the director is away?", "During her absence the deputy signs for the managing director."),
    ("Can two people share a licence?", "Every user needs a seat of their own; accounts are personal."),
    ("What is the fee for children?", "Admission is free up to the age of six and 4.50 until sixteen."),
    ("How do I get reimbursed for a taxi?", "Cab rides after 23:00 are paid back on presentation of the bill."),
    (
        "When is the next meeting of the parents?",
        "The families of class 5b gather on Thursday, 7 May, in the assembly hall.",
    ),
    ("Is the water safe to swim in?", "Bathing in the lake is prohibited from July on because of blue-green algae."),
    ("Why did they pick that supplier?", "We decided for Brandt because they deliver within a day."),
    ("How many people work there?", "The workforce grew to 340 by the end of the year."),
    ("What should I do when the alarm goes off?", "If the siren sounds, leave by the nearest exit and wait outside."),
    ("Does the machine need servicing?", "Maintenance is due after 500 hours of operation and includes an oil change."),
    ("Where can I see the results of the vote?", "The outcome of the ballot is published on the notice board."),
)
"""Questions, and passages that answer them in other words."""


class _Embeds(Protocol):
    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]: ...


class CosineScale(NamedTuple):
    """Mean cosines of a model: `floor` between unrelated texts, `related` between a question and a passage that answers it."""

    floor: float
    related: float

    def relative(self, cosine: float) -> float:
        """Return a cosine on this scale: 0 at the floor or below, 1 at `related`, more above it."""
        return max(0.0, (cosine - self.floor) / (self.related - self.floor))


def cosine_scale(model: _Embeds) -> CosineScale:
    """Measure a model's scale, with a floor of 0 to `HIGHEST`. Raises what the model's `embed` raises."""
    questions, passages = zip(*ANSWERED, strict=True)
    rows = model.embed([*PROBES, *questions, *passages]).astype(np.float64)
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    probes, asked, answers = np.split(rows, [len(PROBES), len(PROBES) + len(ANSWERED)])
    count = len(probes)
    mean = (np.square(probes.sum(axis=0)).sum() - count) / (count * (count - 1))
    floor = float(min(HIGHEST, max(0.0, mean)))
    related = float((asked * answers).sum(axis=1).mean())
    return CosineScale(floor, max(related, floor + NARROWEST))
