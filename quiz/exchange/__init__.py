"""Questions for other systems and from them: GIFT, Moodle XML and QTI 2.1.

Why these. Moodle reads GIFT and its own XML without a plugin. QTI 2.1 as a content package is the version that Canvas,
TAO, Brightspace and Blackboard all import; 1.2 has no standard way to say a tolerance, and 3.0 is read by few so far.

`exported(item, seed=, language=)` is a question as a learner would meet it; each format's `write` gives the file and
what it cannot hold, `read` gives the questions of a file and what was not understood. `bank` makes items of them.
"""

from quiz.exam.banks import UNFINISHED
from quiz.exchange.bank import Imported, imported
from quiz.exchange.formats import FORMATS, Format, format_named
from quiz.exchange.making import exported
from quiz.exchange.model import Choice, Exchanged, Loss, Number, Pairing, losses_in

__all__ = [
    "FORMATS",
    "UNFINISHED",
    "Choice",
    "Exchanged",
    "Format",
    "Imported",
    "Loss",
    "Number",
    "Pairing",
    "exported",
    "format_named",
    "imported",
    "losses_in",
]
