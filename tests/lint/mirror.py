#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""A header's test has the header's path: include/cuota/pool/detail/x.hpp and tests/pool/detail/x.cpp (or x.sim.cpp)."""
import _lint

# Headers without a test file of their own, each with its reason.
NO_TEST = {
    "core/detail/std_minimal.hpp": "only includes of the standard library's",
    "interop/detail/pytorch_device.hpp": "the inside of pytorch, tested through it",
    "report/detail/export/memory_viz_encoders.hpp": "the inside of memory_viz, tested through it",
    "report/detail/export/memory_viz_trace.hpp": "the inside of memory_viz, tested through it",
    "report/detail/export/memory_viz_writer.hpp": "the inside of memory_viz, tested through it",
    "pool/detail/pool_notifier.hpp": "what a pool does for its observer, tested through pool_observer",
    "report/detail/export/budget_order.hpp": "the order of budgets in texts, tested through summary and prometheus",
    "report/diagnosis/diagnosis_options.hpp": "thresholds only, tested where rules go by them",
    "report/detail/diagnosis/finding_words.hpp": "the words of findings, tested whole by the rules",
    "report/detail/snapshot/pool_view.hpp": "the inside of snapshot_of, tested through it",
    "report/snapshot/snapshot_changes.hpp": "the inside of diff, tested through it",
    "report/detail/diagnosis/step_account.hpp": "the inside of the rules on steps, tested through them",
    "report/export/svg_canvas.hpp": "a part of the picture, tested through timeline_svg",
    "report/detail/export/svg_data.hpp": "a part of the picture, tested through timeline_svg",
    "report/export/svg_plot.hpp": "a part of the picture, tested through timeline_svg",
    "report/detail/timeline/timeline_data.hpp": "a part of the page, tested through timeline",
    "report/detail/timeline/timeline_scripts.hpp": "a part of the page, tested in a browser",
    "report/detail/timeline/timeline_page.hpp": "a part of the page, tested through timeline and in a browser",
    "report/recording/memory_event.hpp": "facts only, tested where they are recorded",
    "report/snapshot/memory_snapshot.hpp": "facts only, tested where they are taken",
    "report/recording/recording.hpp": "facts only, tested where they are recorded",
    "interop/mpi_call.hpp": "the inside of mpi, tested through it",
    "interop/detail/mpi_channel.hpp": "the inside of mpi, tested through it",
    "interop/detail/mpi_all_reduce.hpp": "the inside of mpi, tested through it",
    "guard/guard_options.hpp": "options only, tested through guarded",
    "guard/detail/reclaimable_holder.hpp": "an interface, tested with the account that calls it",
    "core/config.hpp": "macros; what they switch is tested where it is used",
    "data/detail/samplers/alias_table.hpp": "what weighted_sampler draws from, tested beside it",
    "data/detail/datasets/read_coalescer.hpp": "how raw_dataset reads, tested beside it",
    "data/loader/batch.hpp": "a part of batch_loader, tested through it",
    "buffer/detail/scratch_counts.hpp": "the kernel of scratch_arena, tested through it",
    "data/detail/loader/gather_rows.hpp": "the kernel of device_resident_dataset, tested through it",
    "guard/detail/guarded/guard_copy.hpp": "the kernel of guard_keeper, tested through it",
    "buffer/detail/ring_state.hpp": "the inside of staging_ring, tested through it",
    "runtime/detail/kernel_launch.hpp": "how for_each_index, for_each_element and warp launch, tested through them",
    "runtime/rt/driver_call.hpp": "how the driver's functions are found, tested through virtual_memory and primary_context",
    "report/detail/import/pickle_parser.hpp": "the inside of pickle_document, tested through it",
    "report/detail/import/pytorch_sites.hpp": "a part of read_pytorch_snapshot, tested through it",
    "report/detail/import/pytorch_trace.hpp": "a part of read_pytorch_snapshot, tested through it",
    "report/detail/import/pytorch_importer.hpp": "the inside of read_pytorch_snapshot, tested through it",
    "report/detail/import/chrome_events.hpp": "a part of read_chrome_trace, tested through it",
    "report/detail/import/chrome_importer.hpp": "the inside of read_chrome_trace, tested through it",
    "report/detail/import/imported_sites.hpp": "numbers of call sites, tested through read_pytorch_snapshot and read_chrome_trace",
    "core/detail/text/json_text.hpp": "how JSON is parsed, tested through safetensors_dataset and read_chrome_trace",
    "report/detail/import/repair_counter.hpp": "a count, tested through read_pytorch_snapshot and read_rmm_log",
    "report/import/imported_recording.hpp": "members only, tested through read_pytorch_snapshot",
    "runtime/detail/capture_scope.hpp": "a capture as the library sees it, tested through graph",
    "resource/detail/driver_memory.hpp": "what device_memory, managed_memory and async_memory share, tested through them",
    "data/detail/datasets/arrow_column.hpp": "the inside of arrow_dataset, tested through it",
    "data/detail/loader/any_dataset.hpp": "a part of batch_loader, tested through it",
    "pool/detail/frames/frame_state.hpp": "the inside of frame, tested through it",
    "pool/pool_stats.hpp": "numbers only, tested where they are counted",
    "pool/planning/step_plan_stats.hpp": "numbers only, tested where they are counted",
    "data/detail/loader/copy_stage.hpp": "a part of batch_loader, tested through it and its transforms",
    "training/distributed/pipeline_state.hpp": "the inside of pipeline, tested through it",
    "training/detail/partition_search.hpp": "the inside of place_layers, tested through it",
    "interop/cuda_mr_concepts.hpp": "the names that cuda_mr and cuda_mr_upstream go by, tested through them",
    "data/detail/loader/loader_engine.hpp": "the inside of batch_loader, tested through it",
    "data/detail/loader/loader_config.hpp": "what a loader is made of, tested through batch_reader and row_batcher",
    "data/detail/loader/loader_slots.hpp": "what loader_memory owns, tested through it",
    "training/detail/chain_memory.hpp": "the inside of checkpointed, tested through it",
    "training/detail/chain_state.hpp": "the inside of checkpointed, tested through it",
    "training/checkpointing/checkpoint_stage.hpp": "what checkpointed runs, tested through it",
    "training/detail/chain_table.hpp": "the inside of chain_plan, tested through it",
    "training/detail/plan_refusal.hpp": "what chain_plan and offload_plan share, tested through them",
    "training/detail/survivor_mask.hpp": "the inside of pruned, tested through it",
}

root = _lint.root()
findings = []
public = [name for name in _lint.headers(root) if name.split("/")[0] in _lint.FOLDERS]
for name in public:
    stem = name.removesuffix(".hpp")
    tested = any((root / "tests" / f"{stem}{suffix}").exists() for suffix in (".cpp", ".sim.cpp"))
    if not tested and name not in NO_TEST:
        findings.append(f"{name} has no tests/{stem}.cpp; write one, or list the header in mirror.py with a reason")
    if tested and name in NO_TEST:
        findings.append(f"mirror.py lists {name}, which has a test")
findings += [f"mirror.py lists {name}, which is not there" for name in NO_TEST if name not in public]
_lint.finish(findings)
