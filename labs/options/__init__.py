"""The options of each lab by the lab's name. No torch is loaded here."""

from __future__ import annotations

from labs.options.accelerated import AcceleratedOptions
from labs.options.base import Options
from labs.options.bloom import BatchingOptions, BloomAccuracyOptions, BloomInferenceOptions, WeightOnlyOptions
from labs.options.bloom_conversion import BloomConversionOptions
from labs.options.bloom_training import BloomTrainingOptions
from labs.options.checkpoint import CheckpointOptions
from labs.options.compile import CompileOptions
from labs.options.context import ContextOptions
from labs.options.deepspeed import DeepSpeedOptions
from labs.options.elastic import ElasticOptions
from labs.options.expert import ExpertOptions
from labs.options.fsdp import FsdpOptions
from labs.options.grpo import GrpoOptions
from labs.options.incident import IncidentOptions
from labs.options.largest_batch import LargestBatchOptions
from labs.options.layout import LayoutOptions
from labs.options.megatron import MegatronOptions
from labs.options.offload import OffloadOptions
from labs.options.overlap import OverlapOptions
from labs.options.pipeline import PipelineOptions
from labs.options.precision import PrecisionOptions
from labs.options.precision_gap import PrecisionGapOptions
from labs.options.recompute import RecomputeOptions
from labs.options.tensor import SequenceOptions, TensorOptions
from labs.options.zero import ZeroOptions

OPTIONS: dict[str, type[Options]] = {
    "zero": ZeroOptions,
    "recompute": RecomputeOptions,
    "precision": PrecisionOptions,
    "tensor": TensorOptions,
    "sequence": SequenceOptions,
    "context": ContextOptions,
    "expert": ExpertOptions,
    "checkpoint": CheckpointOptions,
    "compile": CompileOptions,
    "deepspeed-zero": DeepSpeedOptions,
    "elastic": ElasticOptions,
    "fsdp": FsdpOptions,
    "grpo": GrpoOptions,
    "incident": IncidentOptions,
    "megatron-gpt": MegatronOptions,
    "offload": OffloadOptions,
    "overlap": OverlapOptions,
    "pipeline": PipelineOptions,
    "largest-batch": LargestBatchOptions,
    "accelerated": AcceleratedOptions,
    "precision-gap": PrecisionGapOptions,
    "layout": LayoutOptions,
    "bloom-training": BloomTrainingOptions,
    "bloom-inference": BloomInferenceOptions,
    "weight-only": WeightOnlyOptions,
    "batching": BatchingOptions,
    "bloom-accuracy": BloomAccuracyOptions,
    "bloom-conversion": BloomConversionOptions,
}
