# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The measures of the library that mutation.py takes out, how, and the programs beside an adversary of which one must then fail."""
import dataclasses


@dataclasses.dataclass
class Mutation:
    rule: str
    edits: list  # of (header, text that stands there once, what takes its place)
    tests: list  # files of this folder, by name
    programs: int = 300  # on each kind of device


MUTATIONS = []
ONE = "adversary.sim.cpp"


def without(rule, header, text, instead="", **more):
    MUTATIONS.append(Mutation(rule, [(header, text, instead)], [ONE], **more))


# ---- The driver refuses

RELIEF = "resource/detail/idle_memory.hpp"
without("a request that the driver refuses is made again", RELIEF, "while (!p && relief.relieve(bytes)) p = call();", "(void)relief;")
without("the driver's pool is trimmed", RELIEF, "if (next == measure::trim) return trim();", "if (next == measure::trim) return false;")
MUTATIONS.append(Mutation("pools and loaders release memory that the driver lacks", [
    (RELIEF, "if (next == measure::ask_holders) return ask(idle_registry::of(from_), bytes);", "if (next == measure::ask_holders) return false;"),
    (RELIEF, "= ask(std::move(holders), bytes);", "= false;")], [ONE]))
without("caches release memory that the driver lacks", RELIEF,
        "= ask(idle_registry::of(memory_origin::unknown()), bytes, idle);", "= false;\n    (void)idle;")
without("where the driver refuses what it reports as free, all idle memory is released", RELIEF,
        "if (next == measure::ask_for_all) return ask_for_all(bytes);", "if (next == measure::ask_for_all) return false;")
without("a charge is refunded if the driver refuses", "guard/budgeted.hpp", "            settle(cost, by_stock, false);\n", "")
without("a pool's charge for a segment is refunded if the driver refuses", "pool/detail/growth/pool_memory.hpp",
        "} catch (out_of_memory const& refused) {\n        did_not_come(bytes);", "} catch (out_of_memory const& refused) {")
without("a loader's charge is refunded if the driver refuses", "data/detail/loader/loader_slots.hpp",
        "        if (lacks_slab) uncharge(loader_part::device_slab);\n", "")

# ---- The limit follows the device

LIMIT = "guard/detail/limits/device_limit.hpp"
without("the limit is queried again before a refusal", "guard/detail/ledger_node.hpp",
        "return tree_->outer && met.refuser == &root() && tree_->outer->look(root());", "(void)met;\n    return false;")
without("page cache counts as free", "runtime/device.hpp",
        "info.free = uses_host_memory() ? std::min(info.total, rt::host_memory_of(ordinal_)) : info.driver_free;",
        "info.free = info.driver_free;")
without("a budget stays within the soft limit", LIMIT, "if (!is_within_soft_limit_) return free;", "return free;")
without("idle memory of the driver's pool is available", LIMIT, "saturating_add(device_.memory().free, idle);", "device_.memory().free;")
without("idle memory of the driver's pool counts for the soft limit", LIMIT,
        "if (!limits || limits->left() >= free) return free;", "if (limits) return saturating_add(std::min(device_.memory().free, limits->left()), idle);")
without("idle memory of the driver's pool is released below the soft limit", LIMIT, "        rt::trim_default_pool(device_);\n", "")

# ---- Idle memory is released for a charge

without("holders of idle memory are called before a refusal", "guard/detail/reclaim.hpp",
        "if (missing != 0 && !ask(round, missing, node, record)) return false;", "if (missing != 0) return false;")
without("a lower limit has idle memory released", "guard/detail/reclaim.hpp", "if (wanted != 0 && !reclaiming::is_on()) {", "if (false) {")
without("a pool releases idle memory", "pool/detail/growth/pool_release.hpp",
        "return memory_.blocks().take_out(wanted - std::min(wanted, so_far), kept);", "return std::optional<idle_memory>{};")
without("a loader releases its slots between epochs", "data/detail/loader/loader_slots.hpp",
        "if (!may_be_given() || !p.uses.try_give()) return 0;", "return 0;")
without("a loader refunds the slots that it releases", "data/detail/loader/loader_slots.hpp", "    if (goes) refund(p);\n", "")
FRAME = "pool/detail/frames/frame_state.hpp"
MUTATIONS.append(Mutation("a frame ends with its memory", [
    (FRAME, "while (auto idle = take_idle()) give_back(*idle);", "(void)0;"),
    (FRAME, "for (frame_chunk& c : l.chunks) give_back(c);", "(void)l;")], [ONE]))
without("a reservation returns its unspent bytes", "guard/detail/ledger_node.hpp", "    settled_ = true;\n    shrink(available_here());", "    settled_ = true;")

# ---- Memory of graphs

GRAPHS, USE = "pool/detail/graph_memory_state.hpp", "pool/detail/memory_of_graph.hpp"
without("a launch is charged", GRAPHS, "if (!account_.try_charge(missing)) {", "if (false) {")
without("memory of idle graphs is released for a charge", GRAPHS,
        "(void)report_failure_of([&] { released = trim(); });", "")
without("a launch has memory of other graphs released", USE, "if (account_->trim(&record_) != 0) return true;", "")
without("a launch asks for its memory first", USE, "missing = make_room();", "")
without("parts of refused launches are charged", GRAPHS, "    charge_allocated(missing);  //", "    //")
# Each of these suffices in most programs.
MUTATIONS.append(Mutation("the memory that graphs are known to have is the driver's", [
    (GRAPHS, "    if (reported >= settled_) return 0;", "    if (reported >= 0) return 0;"),
    (GRAPHS, "                (void)trim();\n                continue;", "                (void)0;"),
    (USE, "account_->trims() == steady_since_ ? record_.stream_before : 0", "record_.stream_before"),
    (GRAPHS, "graphs_.forget_memory(is_known);", "graphs_.forget_memory(true);"),
    (USE, "missing = make_room();", "")], [ONE], 2000))
