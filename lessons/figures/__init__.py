"""The figures of the lessons. Each function returns a `Figure`: give it a language, and it draws itself."""

from lessons.figures.activations import (
    against_sequence,
    kept_by_operation,
    kept_in_backward,
    layer_by_sequence,
    more_operations,
)
from lessons.figures.arrangements import (
    data_parallel_step,
    gathers_in_a_step,
    gradients_in_backward,
    ring,
    shards_or_layers,
    two_halves,
    who_holds_what,
)
from lessons.figures.base import Figure
from lessons.figures.buckets import buckets_in_backward
from lessons.figures.checkpoints import cuts, lost, saves, where_time_goes
from lessons.figures.collectives import collectives
from lessons.figures.communication import beside_backward, seconds_by_size, traced, two_levels, two_links
from lessons.figures.experts import to_the_experts, tokens_of_experts
from lessons.figures.fitting import batches_within
from lessons.figures.judging import benchmark_and_reality, waiting_by_load, waits_for_the_longest
from lessons.figures.layouts import map_of_layouts
from lessons.figures.measurements import bytes_per_parameter, differences, measured_peak, measured_states, over_steps
from lessons.figures.meshes import bubble_by_copies, on_machines, on_ranks
from lessons.figures.offloading import across_the_link, efficiency_by_bandwidth, ways_through
from lessons.figures.one_gpu import counters, ways_to_share
from lessons.figures.pipelines import messages, schedule, stages
from lessons.figures.planned import links_of, memory_of, step_of
from lessons.figures.planning import compiling_pays, from_layout_to_cost, steps_side_by_side
from lessons.figures.precisions import bytes_by_recipe, half_spacing, magnitudes, number_formats
from lessons.figures.products import regions, split_heads, split_loss, split_products
from lessons.figures.rewards import grpo_round, one_try_and_many, rewards_of_seeds
from lessons.figures.rings import ring_turns, scores_by_rank
from lessons.figures.roofline import roofline
from lessons.figures.serving import reading_in_turn, slots, token_times
from lessons.figures.sharded import shardings
from lessons.figures.stacks import decision, layers_of_software, on_amd, remarks, rows_by_head
from lessons.figures.zero import collectives_in_a_step, gradients_through_backward

__all__ = [
    "Figure",
    "across_the_link",
    "against_sequence",
    "batches_within",
    "benchmark_and_reality",
    "beside_backward",
    "bubble_by_copies",
    "buckets_in_backward",
    "bytes_by_recipe",
    "bytes_per_parameter",
    "collectives",
    "collectives_in_a_step",
    "compiling_pays",
    "counters",
    "cuts",
    "data_parallel_step",
    "decision",
    "differences",
    "efficiency_by_bandwidth",
    "from_layout_to_cost",
    "gathers_in_a_step",
    "gradients_in_backward",
    "gradients_through_backward",
    "grpo_round",
    "half_spacing",
    "kept_by_operation",
    "kept_in_backward",
    "layer_by_sequence",
    "layers_of_software",
    "links_of",
    "lost",
    "magnitudes",
    "map_of_layouts",
    "measured_peak",
    "measured_states",
    "memory_of",
    "messages",
    "more_operations",
    "number_formats",
    "on_amd",
    "on_machines",
    "on_ranks",
    "one_try_and_many",
    "over_steps",
    "reading_in_turn",
    "regions",
    "remarks",
    "rewards_of_seeds",
    "ring",
    "ring_turns",
    "roofline",
    "rows_by_head",
    "saves",
    "schedule",
    "scores_by_rank",
    "seconds_by_size",
    "shardings",
    "shards_or_layers",
    "slots",
    "split_heads",
    "split_loss",
    "split_products",
    "stages",
    "step_of",
    "steps_side_by_side",
    "to_the_experts",
    "token_times",
    "tokens_of_experts",
    "traced",
    "two_halves",
    "two_levels",
    "two_links",
    "waiting_by_load",
    "waits_for_the_longest",
    "ways_through",
    "ways_to_share",
    "where_time_goes",
    "who_holds_what",
]
