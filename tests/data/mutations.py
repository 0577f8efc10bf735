# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The guards against the hazards of loading data that mutation.py takes out, how, and which test must then fail."""
import dataclasses


@dataclasses.dataclass
class Mutation:
    rule: str
    edits: list  # of (header, text that stands there once, what takes its place)
    tests: list  # hazards, as "H1", or files of compile_fail
    by_compiler: bool  # the test says it by static_assert: it is refused
    by_tsan: bool  # a race: only ThreadSanitizer must see it
    environment: dict


MUTATIONS = []
STAGE, ENGINE, BATCH, SLOTS, LINE = "data/detail/loader/copy_stage.hpp", "data/detail/loader/loader_engine.hpp", "data/loader/batch.hpp", "data/detail/loader/loader_slots.hpp", "data/detail/loader/batch_reorder_queue.hpp"
SLOT, LOADER, RING, STAGING, EVENT = "data/detail/loader/device_slot.hpp", "data/loader/batch_loader.hpp", "buffer/detail/ring_state.hpp", "buffer/staging_ring.hpp", "runtime/event.hpp"
LAYOUT, FILE, SOURCE, CALL, ROWS = "data/loader/slot_layout.hpp", "data/io/file.hpp", "data/datasets/dataset.hpp", "runtime/rt/call.hpp", "data/loader/sample_too_long_error.hpp"


def without(rule, edits, *tests, by_compiler=False, by_tsan=False, **environment):
    MUTATIONS.append(Mutation(rule, edits if isinstance(edits, list) else [edits], list(tests), by_compiler, by_tsan, environment))


# ---- Order (hazards_of_order.sim.cpp)

without("a pinned slot is given out when its last copy is over",
        (RING, "if (slots_[index].copied) slots_[index].copied->synchronize();", ""), "H1")
without("a slot under a copy is not found free",
        (RING, "slots_[*ready].copied && !slots_[*ready].copied->is_done()", "false"), "H1")
without("submitting a lease uses it up",
        (STAGING, "staging_slot(staging_slot&& other) noexcept :", "staging_slot(staging_slot const&) = default;\n        staging_slot(staging_slot&& other) noexcept :"),
        "H1", by_compiler=True)
without("a ring's end waits for its copies",
        (RING, "if (s.copied) rt::drain(*s.copied);", "(void)s;"), "H2")
without("a stream that works on a batch waits for its copy", (SLOT, "else arriving_->make_wait(s);", ""), "H3")
without("a copy's handle waits for that copy",
        (STAGING, "if (event const* const copied = ring_->copied(slot_, copy_)) s.wait(*copied);", "(void)s;"), "H3")
without("the legacy default stream has no view of a batch",
        (BATCH, "if (s.get() == nullptr || s.get() == cudaStreamLegacy)", "if (false)"), "H3")
without("an event is recorded when it is made", (EVENT, "    record(s);\n}\n\nCUOTA_INLINE void event::record(", "}\n\nCUOTA_INLINE void event::record("), "H4")
without("no event is made without a record", (EVENT, "    explicit event(stream_ref s, host_wait wait = host_wait::active);", "    event() = default;\n    explicit event(stream_ref s, host_wait wait = host_wait::active);"),
        "H4", by_compiler=True)
without("a stream that works on a batch waits for what was made of it", (STAGE, "        to.is_made_on(copies);\n", ""), "H3")
without("a copy into a place waits for the work there", (STAGE, "if (!options().transform) to.order_readers_before(copies);", ""), "H5")
without("what is made in a place waits for the work there", (STAGE, "        to.order_readers_before(copies);\n        device_transform", "        device_transform"), "H5")
without("all streams that used a batch are marked",
        (SLOT, "for (shared_stream const& s : used_)\n        if (!report", "for (shared_stream const& s : std::span{used_}.first(used_.empty() ? 0 : 1))\n            if (!report"),
        "H5")
without("a stream that is marked again is waited for again",
        (SLOT, "if (foreign_capture_of(s) == 0 && !mark(*known)) readers_.erase(known);",
         "if (!known->last) (void)mark(*known);\n    known->is_marked = true;"), "H5")
without("a stream that cannot be marked is waited for", (SLOT, " rt::drain(s);", " (void)s;"), "H5")
without("a batch that ends as a temporary has no view",
        (BATCH, "void view(stream_ref, std::size_t = 0) const&& = delete;", "void view(stream_ref, std::size_t = 0) const&& {}"),
        "batch_does_not_outlive_its_view.cpp")
without("an ended batch is overwritten when that is asked for", (STAGE, "        if (!options().poison) return;", "        return;"), "H6")
without("an ended batch is overwritten after its work", (STAGE, "        ended.order_readers_before(memory_.copies());\n", ""), "H6")
without("a view is a stream's until its batch ends", (SLOT, "        borrowed_.clear();\n", ""), "H6")
without("a batch that was moved from has no view",
        (BATCH, 'if (!engine_) detail::throw_usage_error(where, "a batch was used after it was moved from");', ""), "H6")

# ---- Errors (hazards_of_errors.sim.cpp)

without("who waits is told of a failure", (LINE, "        place.failure = std::move(failure);\n", ""), "H7")
without("who waits is woken",
        [(ENGINE, "            memory_->uses_of_ring().drop();\n        }\n        copy_what_can_be();\n        arrived_.notify_all();", "            memory_->uses_of_ring().drop();\n        }\n        copy_what_can_be();"),
         (ENGINE, "        next = next_copying();\n    }\n    arrived_.notify_all();", "        next = next_copying();\n    }")],
        "H7")
without("a copy that fails is its batch's failure",
        (ENGINE, "            line_.fail(std::move(failure));\n", ""),
        "H7", "H19")
without("an epoch without workers is over", (ENGINE, "            if (!line_.is_open() || line_.has_failed()) return;", "            return;"), "H7")
without("whatever a dataset throws is caught",
        (ENGINE, "                    reader.fill(lease->bytes(), taken);\n                }\n            } catch (...) {", "                    reader.fill(lease->bytes(), taken);\n                }\n            } catch (std::exception const&) {"),
        "H8")
without("a wait for a pinned slot that fails is caught",
        (ENGINE, "lease = memory_->ring().acquire(stop);\n            } catch (...) {", "lease = memory_->ring().acquire(stop);\n            } catch (std::bad_alloc const&) {"),
        "H8")
without("a failure waits for the batches before it",
        (LINE, "        place.failure = std::move(failure);\n", "        if (failure) failure_ = failure;\n"),
        "H9")
without("batches come before a failure behind them",
        [(LINE, "        return delivered_ == copied_ ? failure_ : nullptr;", "        return failure_;"),
        (ENGINE, "        if (line_.has_ready()) {", "        if (std::exception_ptr const failure = line_.failure_here()) std::rethrow_exception(failure);\n        if (line_.has_ready()) {")],
        "H9")
without("a failure stays",
        (ENGINE, "std::rethrow_exception(failure);\n    throw_usage_error(", "{\n        line_.fail(nullptr);\n        std::rethrow_exception(failure);\n    }\n    throw_usage_error("),
        "H9")
without("a read that brings nothing is an error",
        [(FILE, "if (got == 0) throw ends_early(offset, out.size());", "if (got == 0) return;"),
         (FILE, "if (got == 0) throw ends_early(offset, left);", "if (got == 0) return;")], "H16")
without("a read that brings less goes on",
        [(FILE, "while (!out.empty()) {", "if (!out.empty()) {"), (FILE, "while (left != 0) {", "if (left != 0) {")], "H16")
without("what fails at an end is reported",
        (CALL, "    report_failure_of([&] { throw_error_of(code, call, {}); });\n", "    (void)call;\n"), "H18")
without("what fails at an end is asked for again", (CALL, "    code = call();\n    if (code != cudaSuccess) (void)", "    if (code != cudaSuccess) (void)"),
        "H18")
without("a failure at a batch's end is caught", (SLOT, "        if (!report_failure_of([&] {\n                stream_ref{s}.check_reachable();\n                remember(s);\n            }))", "        if (remember(s); false)"), "H18")
without("a wait for a failed device is an error", (ENGINE, "                lease = memory_->ring().acquire(stop);\n            } catch (...) { failure = std::current_exception(); }",
                                                   "                lease = memory_->ring().acquire(stop);\n            } catch (...) {}"), "H19")
without("a gather that does not fit is refused", (SOURCE, "wanted != out[k].size())", "wanted < out[k].size())"), "H24")
without("a copy that does not fit is refused",
        (STAGING, "if (bytes > mine.bytes().size() || bytes > to.size())", "if (false)"), "H24")
without("a sample that is too long is refused", (ROWS, "            if (before + i == 0)\n                throw", "            if (before + i == 0 && lengths[0] == 0)\n                throw"), "H24")
without("a batch ends before a sample that does not fit", (ROWS, "lengths[i] <= shape_.plan.max_rows - offsets.back()", "lengths[i] <= 2 * shape_.plan.max_rows - offsets.back()"), "H24")
without("a slot has room for a whole batch", (LAYOUT, "f.is_ragged ? rows : batch);", "f.is_ragged ? rows : batch / 2);"), "H24")

# ---- Ends (hazards_of_ends.sim.cpp)

without("an epoch that is left is over", (LINE, "        is_open_ = false;\n", ""), "H10")
without("places of batches that nobody took come home",
        (LINE, "        for (arrived const& a : ready_) free_slots_.push_back(a.slot);\n", ""), "H10")
without("batches that nobody took are gone", (LINE, "        ready_.clear();\n", ""),
        "H10")
without("pinned slots that were read ahead come home", (LINE, "        for (pending& p : pending_) p.filled.reset();\n", ""), "H10")
without("what is read belongs to its epoch", (LINE, "        if (mine.generation != generation_) return false;\n", ""), "H10")
without("workers wait until they are told",
        (ENGINE, "if (!work_.wait(lock, stop, [&] { return line_.has_work(); }) || stop.stop_requested())\n            return std::nullopt;",
         """while (!work_.wait_for(lock, stop, std::chrono::milliseconds{1}, [&] { return line_.has_work(); }))
            if (stop.stop_requested()) return std::nullopt;"""), "H11")
without("a loader's end is told to who waits for a slot", (ENGINE, "lease = memory_->ring().acquire(stop);", "lease = memory_->ring().acquire();"), "H11")
without("a loader that ends with the statement has no epochs",
        (LOADER, "epoch_range epoch(std::uint64_t, stop_signal = {}, source_location = {}) && = delete;",
         "epoch_range epoch(std::uint64_t, stop_signal = {}, source_location = {}) &&;"), "H12",
        by_compiler=True)
without("a batch keeps its slots",
        [(ENGINE, "            memory_->add_use();\n            return next;", "            return next;"),
         (ENGINE, "        arrived_.notify_all();\n        memory_->drop_use();\n    }\n", "        arrived_.notify_all();\n    }\n")], "H12")
without("a child is told that it has no loader", (ENGINE, "    if (is_of_parent())\n        throw_usage_error(", "    if (false)\n        throw_usage_error("), "H13")
without("a child touches nothing", (ENGINE, "        if (!of->is_of_parent()) end(*of);", "        end(*of);"), "H13")
without("CUDA that is gone is left alone",
        (CALL, "    if (code == cudaErrorCudartUnloading)\n        return false;", "    if (false)\n        return false;"), "H17")
without("a ring's end throws nothing", (RING, "if (s.copied) rt::drain(*s.copied);", "if (s.copied) s.copied->synchronize();"), "H17")
without("a batch's end takes the lock", (ENGINE, "            region_lock const lock{guard_};\n            line_.give_back(index);", "            line_.give_back(index);"),
        "H20", by_tsan=True)
without("what a worker brings is under the lock", (ENGINE, "        region_lock const lock{guard_};\n        times_.goes_on(worker, worker_stage::idle);\n        if (line_.fill(", "        if (line_.fill("),
        "H20", by_tsan=True)

# ---- Epochs (hazards_of_epochs.sim.cpp)

without("a state counts what was delivered", (LINE, "        position_ = end;\n", "        position_ = ready_.empty() ? end : ready_.back().end;\n"), "H14")
without("a state is not what workers have claimed", (LINE, "noexcept { return position_; }", "noexcept { return claim_position_; }"), "H14")
without("an epoch begins where it is told to", (ENGINE, "line_.begin(position, ", "line_.begin(0, "), "H15")
without("an epoch begins with nothing delivered", (LINE, "claim_position_ = position_ = position;", "claim_position_ = position;"), "H15")
without("one epoch goes on at a time", (ENGINE, "if (line_.is_open()) throw_usage_error(where, \"loader of {}: an epoch is already", "if (false) throw_usage_error(where, \"loader of {}: an epoch is already"), "H21")
without("a loader is charged", (SLOTS, "if (p.account && p.bytes != 0) charge_to(*p.account, which, label_of(which, where));", "(void)where;"), "H22")
without("all is charged before any is allocated",
        (SLOTS, "if (lacks_ring) charge_for(loader_part::pinned_ring, where);\n", "if (lacks_ring) {\n                charge_for(loader_part::pinned_ring, where);\n                allocate(loader_part::pinned_ring, where);\n            }\n"),
        "H22")
without("a loader takes its plan", (SLOTS, "ring_.emplace(plan().host_slots, ", "ring_.emplace(plan().host_slots + 1, "), "H22")
without("a loader gives back what it was charged", (SLOTS, "p.account->refund(p.bytes);", "(void)p;"), "H22")
without("workers have their loader's device current", (ENGINE, "            if (!failure) {\n                device_scope const here{memory_->where()};", "            if (!failure) {"), "H23")
without("an event is made on its stream's device",
        [(EVENT, "CUOTA_INLINE event::event(stream_ref s, host_wait wait) {\n    s.check_reachable();\n    device_scope const here{s.device()};", "CUOTA_INLINE event::event(stream_ref s, host_wait wait) {\n    (void)s;"),
         (STAGE, "        device_scope const here{memory_.where()};\n        stream const& copies", "        stream const& copies")], "H23")
without("a device that was made current is current no longer than needed", ("runtime/device.hpp", "    if (how_ != entered::by_runtime) return;", "    return;"), "H23")
