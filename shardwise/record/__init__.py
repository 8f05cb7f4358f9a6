"""The learner's record: predictions, answers, verdicts, certificates and their key, on this machine only."""

from shardwise.record.progress import ObjectiveProgress, UnitProgress
from shardwise.record.store import Record
from shardwise.record.values import Attempted, Issued, Merged, Predicted, Remembered, Summary

__all__ = [
    "Attempted",
    "Issued",
    "Merged",
    "ObjectiveProgress",
    "Predicted",
    "Record",
    "Remembered",
    "Summary",
    "UnitProgress",
]
