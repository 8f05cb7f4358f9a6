"""The course's languages: which there are, which one a learner reads, and every message in it.

A language is a folder with ``language.yaml`` and one gettext catalog a source; nothing in code names one but the source
language. More folders of languages can be named in ``SHARDWISE_LANGUAGES_PATH`` (separated as in ``PATH``).
"""

from translations.available import SOURCE, Language, in_preparation, language, languages, preferred, released
from translations.translate import Phrase, Translator, translator
from translations.wording import CourseError

__all__ = [
    "SOURCE",
    "CourseError",
    "Language",
    "Phrase",
    "Translator",
    "in_preparation",
    "language",
    "languages",
    "preferred",
    "released",
    "translator",
]
