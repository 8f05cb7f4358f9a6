"""Starting ranks and watching them: an ordinary torchrun script on N processes of this machine."""

from labs.runner.client import run, shut_down, survivors, warm_up
from labs.runner.results import RankFailed, RankResult, Run

__all__ = ["RankFailed", "RankResult", "Run", "run", "shut_down", "survivors", "warm_up"]
