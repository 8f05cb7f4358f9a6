"""`python -m labs.clusters slurm layout --nodes 2 --dp 2 --pp 2 --tp 2`, `python -m labs.clusters two-gpus --course
ADDRESS`: the file, on standard output.
"""

from __future__ import annotations

import argparse
import json
import sys

import translations
from labs.catalogue import LABS
from labs.clusters.jobs import KINDS, Job, rendered
from labs.clusters.two_gpus import Hosted, notebook


def main(words: list[str]) -> int:
    language = translations.preferred()
    text = translations.translator(language)
    try:
        print(_hosted(words[1:], language, text) if words[:1] == ["two-gpus"] else _job(words, text), end="")
    except translations.CourseError as error:
        print(error.in_language(text), file=sys.stderr)
        return 2
    return 0


def _hosted(words: list[str], language: translations.Language, text: translations.Translator) -> str:
    parser = argparse.ArgumentParser(
        prog="python -m labs.clusters two-gpus", description=text("labs.two-gpus"), allow_abbrev=False
    )
    parser.add_argument("--course", metavar="ADDRESS", required=True, help=text("labs.two-gpus-course-of"))
    parser.add_argument("--torch", dest="build", default="cu126", help=text("labs.two-gpus-torch-of"))
    return json.dumps(notebook(Hosted(**vars(parser.parse_args(words))), language=language), indent=1) + "\n"


def _job(words: list[str], text: translations.Translator) -> str:
    parser = argparse.ArgumentParser(
        prog="python -m labs.clusters",
        usage="%(prog)s {slurm,kubernetes} LAB [options]",
        description=text("labs.clusters"),
        epilog=text("labs.clusters-rest"),
        allow_abbrev=False,
    )
    parser.add_argument("kind", choices=KINDS, help=text("labs.clusters-kind"))
    parser.add_argument("lab", metavar="LAB", help=text("labs.clusters-lab", known=", ".join(LABS)))
    parser.add_argument("--nodes", type=int, default=2, help=text("labs.clusters-nodes"))
    parser.add_argument("--ranks-per-node", type=int, default=4, help=text("labs.clusters-ranks-per-node"))
    parser.add_argument("--gpus", action="store_true", help=text("labs.clusters-gpus"))
    parser.add_argument("--minutes", type=int, default=10, help=text("labs.clusters-minutes"))
    parser.add_argument("--image", default="shardwise:latest", help=text("labs.clusters-image-of"))
    parser.add_argument("--gpu-resource", default="nvidia.com/gpu", help=text("labs.clusters-gpu-resource-of"))
    chosen, rest = parser.parse_known_args(words)
    kind = vars(chosen).pop("kind")
    return rendered(Job(**vars(chosen), words=tuple(rest)), kind)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
