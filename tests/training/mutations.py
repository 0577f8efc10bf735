# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The rules of training/ that mutation.py takes out, how, and the test files of which one must then fail."""
import dataclasses
import pathlib

INCLUDE = pathlib.Path(__file__).resolve().parents[2] / "include" / "cuota"


@dataclasses.dataclass
class Mutation:
    rule: str
    edits: list  # of (header, text that stands there once, what takes its place)
    tests: list  # files of this folder or of one in it, by name
    modes: list  # environments to try besides none: "late:1" and "strict"


MUTATIONS = []


def rules_of(header, *tests, modes=()):
    [path] = (INCLUDE / "training").rglob(f"{header}.hpp")

    def without(rule, text, instead=""):
        MUTATIONS.append(Mutation(rule, [(path.relative_to(INCLUDE).as_posix(), text, instead)], list(tests), list(modes)))
    return without


# ---- Chains and their plans

without = rules_of("chain", "chain.cpp")
without("a granularity is a power of two", "if (!is_power_of_two(granularity))", "if (false)")
without("a size that no number holds is unlimited", ".value_or(unlimited);\n    for (chain_stage", ".value_or(0);\n    for (chain_stage")
without("a gradient's own size is rounded, too", "if (s.gradient_bytes)", "if (false)")
without("a chain has a stage", "if (stages.empty())", "if (false)")
without("sizes have a sum", "if (!sum)", "if (false)")

without = rules_of("chain_simulation", "chain_simulation.cpp")
without("a schedule is of the chain's stages", "if (op.stage >= states_.size())", "if (false)")
without("every stage is run backward", "if (to_go_ != 0)\n", "if (false)\n")
without("nothing is left at the end", "if (states_[i].lies != at::nowhere)", "if (states_[i].lies == at::device)")
without("what is needed on the device is not on the host", "if (states_[stage].lies != at::device)", "if (states_[stage].lies == at::nowhere)")
without("what is needed is there", "if (states_[stage].lies != at::device)", "if (states_[stage].lies == at::host)")
without("a stage has one record", "if (s.lies != at::nowhere) refuse", "if (s.lies == at::host) refuse")
without("stages are run backward in order", "if (i + 1 != to_go_)", "if (i + 1 > to_go_)")
without("a backward run needs what was saved", "if (!s.is_saving)", "if (false)")
without("a gradient and scratch are there at once", "allocate(stage.backward_scratch + gradient_of_input(i))",
        "allocate(stage.backward_scratch), held_ += gradient_of_input(i)")
without("scratch of a forward run goes", "held_ -= stage.forward_scratch;")
without("scratch of a backward run goes", "held_ -= stage.backward_scratch;")
without("a gradient that was used goes", "if (to_go_ != states_.size()) held_", "if (false) held_")
without("only what is on the host is fetched", "if (s.lies != at::host) refuse", "if (s.lies == at::nowhere) refuse")
without("a fetch waits for its offload", "std::max({from_host_free_, s.ready, last_start_})", "std::max({from_host_free_, last_start_})")
without("a link copies one record at a time", "std::max(to_host_free_, s.ready) +", "s.ready +")
without("the host's bytes are free after a fetch", "host_held_ -= s.bytes;")
without("a run waits for what it reads", "last_start_ = std::max(compute_free_, needed_at)", "last_start_ = compute_free_")

without = rules_of("simple_plans", "simple_plans.cpp")
without("a segment's input is kept", "if (k != segments) plan.push_back", "if (false) plan.push_back")
without("every number of segments is tried", "segments <= c.stages.size()", "segments < c.stages.size()")

without = rules_of("chain_table", "chain_plan.cpp")
without("a saving run has the gradient that waits beside it", "gradient(last) + record(first) + stages_[first].forward_scratch,",
        "record(first) + stages_[first].forward_scratch,")
without("a last stage's run has its gradient beside it", "gradient(i) + record(i) + stages_[i].forward_scratch, need_back",
        "record(i) + stages_[i].forward_scratch, need_back")
without("a dropping run has input and output at once", "k == first ? 0 : stages_[k - 1].output_bytes", "0")
without("a dropping run has the gradient that waits beside it", "gradient(last) + forward_peak", "forward_peak")
without("a backward run has the gradient that it makes", "+ (i == 0 ? 0 : gradient(i - 1))")
without("the last stage has no gradient from behind", "i + 1 == stages_.size() ? 0 : stages_[i].gradient()", "stages_[i].gradient()")
without("the least is the least in bytes", "found.bytes < least.bytes || (found.bytes == least.bytes && found.time < least.time)",
        "found.time < least.time")
without("sizes are rounded up to slots", "* slots_ + memory_limit_ - 1) / memory_limit_)", "* slots_) / memory_limit_)")
without("no block is left out that is faster somewhere", ">= faster[i]) continue", ">= faster[i + block - 1]) continue")

without = rules_of("chain_plan", "chain_plan.cpp")
without("a part that does not fit is no part", "if (bytes < least.bytes) return", "if (false) return")
without("what is kept is not there for the rest", "bytes - choice.kept);\n        return", "bytes);\n        return")
without("a room below the least is refused", "if (memory_limit < bytes)", "if (false)")
without("there are slots", "if (slots == 0) detail::throw_usag", "if (false) detail::throw")

without = rules_of("offload_plan", "offload_plan.cpp")
without("a set of records fits the room", "if (least(away) > memory_limit_) return false;")
without("a record comes back where there is room", "if (record(stage) > memory_limit_ - held[at].backward) return false;")
without("a record that came back takes room", "held[at].backward += record(stage);", "(void)held[at];")
without("a plan is improved until nothing is better", "while (improve()) {}")
without("gradients take room beside records", "records + gradients + s.backward_scratch", "records + s.backward_scratch")

# ---- The executor

without = rules_of("chain_state", "checkpointed.cpp", "checkpointed.sim.cpp", modes=["late:1"])
without("a copy to the host waits for the stage", "going_->wait(*ready_);")
without("a place is written when it was read", "if (to.read) going_->wait(*to.read);")
without("a record that leaves goes in order of its copy", "record.set_owner(*going_);")
without("a fetch waits for the copy away", "coming_->wait(*from.written);")
without("a stage waits for the copy back", "on_.wait(store_.arrived(i));")
without("copies are on the stream's device", "    if (places_.empty()) return;\n    device_scope const here{on.device()};", "    if (places_.empty()) return;")
without("only pinned memory takes records", "if (host_.kind() != memory_kind::pinned)", "if (false)")
without("a stage that is run again has the same seed", "stage_seed(seed_, i), false, saving, held_[i].has_run", "stage_seed(seed_ + held_[i].has_run, i), false, saving, held_[i].has_run")
without("a stage is told that it has run", "held_[i].has_run = true;")
without("a step's seed counts", "stage_seed(seed_, i), true, true, false", "stage_seed(0, i), true, true, false")
without("a record goes after its backward run", "        held_[i].record.reset();\n        gradient_.reset();", "        gradient_.reset();")

without = rules_of("checkpointed", "checkpointed.cpp", "checkpointed.sim.cpp", modes=["late:1"])
without("a step that ends early waits for its copies", "            store_.drain();")
without("a stage has its functions", "if (!stages[i].forward || !stages[i].backward)", "if (false)")

without = rules_of("chain_requests", "chain_requests.cpp")
without("bytes of no size ask for nothing", "if (bytes == 0) return;")
without("what was taken last goes first", "for (; !of.empty(); of.pop_back()) requests_[of.back()].until = now_++;",
        "for (std::size_t const i : of) requests_[i].until = now_++;\n        of.clear();")

without = rules_of("compressed_stages", "compressed_stages.cpp")
without("a gradient stays floats", "s.gradient_bytes = s.gradient();")
without("an input is decoded for the backward run, too", "decode(run, input_, v.input, next);\n        decode(run, output_", "decode(run, output_")
without("scratch of a stage is beyond what is decoded", "v.scratch = {v.scratch.at + decoded_bytes(), inside_.forward_scratch};", "v.scratch = {v.scratch.at, inside_.forward_scratch};")

without = rules_of("measure_stages", "measure_stages.sim.cpp")
without("the first step only warms up", "step != steps + 1", "step != steps")
without("there are steps", "if (steps == 0)", "if (false)")

# ---- Parts of batches, searches, ranks

without = rules_of("micro_batches", "micro_batches.cpp")
without("the last part has what is left", "n - first < micro ? n - first : micro", "micro")
without("a ragged part is one", "(n_ % micro_ == 0 ? 0 : 1)", "0")

without = rules_of("find_batch_size", "find_batch_size.cpp")
without("nothing is tried twice", "            if (t.batch == batch) return t.fitted;", "            (void)t;")
without("what a refused try leaves is told", "if (mark_) mark_->check(\"a refused try", "if (false) mark_->check(\"a refused try")
without("what a try leaves is told", "if (mark_) mark_->check(\"a try", "if (false) mark_->check(\"a try")
without("bytes are kept free", "if (options_.keep_free != 0)\n                    kept_", "if (false)\n                    kept_")
without("nothing that fits is a refusal", "if (best == 0) throw", "if (false) throw")
without("what is answered was tried with its margin", "if (fits(number)) return sizes_.at(number);", "return sizes_.at(number);")
without("ranks go by the smallest of the largest", "sizes_.most = options_.ranks->min(most, \"batch search: largest\", where_);", "sizes_.most = most;")

without = rules_of("with_retry", "with_retry.cpp")
without("a refused batch begins anew", "        first_ = 0;\n")
without("its gradients are cleared", "        has_to_begin_ = true;\n")
without("or goes on from its part", "        if (options_.from == retry_from::same_part) return;")
without("what a refused part leaves is told", "if (mark_) mark_->check", "if (false) mark_->check")
without("something clears the gradients", "if (options_.from == retry_from::start && !options_.on_start)", "if (false)")
without("the smallest part is the last", "if (part_ <= smallest_) throw", "if (part_ <= 1) throw")
without("parts of the run that counts are counted", "        done_.parts = 0;\n")
without("ranks use parts of one size", "part_ = o.ranks->max(part_", "(void)o.ranks->max(part_")

without = rules_of("rank_consensus", "rank_consensus.cpp", "thread_group.cpp")
without("ranks are in the same round", "return round == other.round && hash == other.hash;", "return hash == other.hash;")
without("ranks are asked the same", "return round == other.round && hash == other.hash;", "return round == other.round;")
without("a rank that has left is not asked", "if (has_left_) detail::throw_usage_error(where, \"rank_consensus: used after", "if (false) detail::throw_usage_error(where, \"rank_consensus: used after")
without("a failure is told to the others", "            if (ranks) (void)ranks->all_gather(static_cast<std::uint64_t>(outcome::failed), name, where);", ";")

without = rules_of("thread_group", "thread_group.cpp")
without("a rank that leaves is told to who waits", "        if (!gone_) give_up(rank, why);", "        (void)rank; (void)why; (void)lock;")
without("a round that is over stays so", "if (round_ == round) throw_if_gone();", "throw_if_gone();")
without("a rank joins once", "!std::exchange(seats_[rank].has_joined, true)", "true")
