"""English sources: how their texts are found, and how a source with another wording is made.

Every source has one function ``rewrite(source, say)`` that puts ``say``'s wording in the place of each text.
Extracting and translating are two ways to call it, so they never disagree on what a text is.
"""

from translations.source.code import translate_code
from translations.source.data import translate_data
from translations.source.texts import SourceError, Text

__all__ = ["SourceError", "Text", "translate_code", "translate_data"]
