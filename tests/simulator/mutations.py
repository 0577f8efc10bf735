# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""The rules that mutation.py takes out of the simulator, how, and which tests must then fail."""
import dataclasses


@dataclasses.dataclass
class Mutation:
    rule: str
    edits: list  # of (file, text that stands there once, what takes its place)
    tests: list
    environment: dict


MUTATIONS = []


def without(rule, edits, *tests, **environment):
    MUTATIONS.append(Mutation(rule, edits if isinstance(edits, list) else [edits], list(tests), environment))


# ---- Streams

without("a stream runs its work in the order of submission",
        ("scheduler.cpp", "on->queue.push_back(work);", "on->queue.push_front(work);"),
        "a stream runs its work in the order of submission")
without("work does not hold up the caller",
        ("scheduler.cpp", "when == pace::at_once && may_help()", "may_help()"),
        "work on a stream does not block the calling thread",
        "allocating and freeing in stream order do not wait")
without("streams run concurrently",
        ("scheduler.cpp", "    if (s.legacy) {\n        for (auto const& other : d.streams)",
         "    if (true) {\n        for (auto const& other : d.streams)"),
        "streams run concurrently")
without("the legacy stream waits for blocking streams",
        ("scheduler.cpp", "if (other->blocking() && other->last) order(work, other->last);", ";"),
        "the legacy default stream waits for blocking streams, and they wait for it",
        "work enqueued on the default stream runs between earlier and later work of a blocking stream")
without("blocking streams wait for the legacy stream",
        ("scheduler.cpp", "order(work, d.legacy->last);", ""),
        "the legacy default stream waits for blocking streams, and they wait for it",
        "work enqueued on the default stream runs between earlier and later work of a blocking stream")
without("the legacy stream does not wait for non-blocking streams",
        ("scheduler.cpp", "if (other->blocking() && other->last) order(", "if (other->last) order("),
        "a non-blocking stream and the default stream do not wait for each other")
without("non-blocking streams do not wait for the legacy stream",
        ("scheduler.cpp", "} else if (s.blocking() && d.legacy->last) {", "} else if (d.legacy->last) {"),
        "a non-blocking stream and the default stream do not wait for each other")
without("each thread has a default stream of its own",
        ("stream.cpp", "if (handle == cudaStreamPerThread) return per_thread_stream();",
         "if (handle == cudaStreamPerThread) return current_device().legacy;"),
        "each thread has its own default stream, which is a blocking stream",
        "with per-thread default streams, stream 0 is the thread's own")
without("the thread's own default stream is a blocking one",
        ("stream.cpp", "if (!s) s = make_stream(current_device(), cudaStreamDefault,",
         "if (!s) s = make_stream(current_device(), cudaStreamNonBlocking,"),
        "each thread has its own default stream, which is a blocking stream")
without("synchronising the legacy stream waits for blocking streams",
        ("scheduler.cpp", "if (other->blocking()) add(*other);", ";"),
        "synchronising the default stream waits for blocking streams")
without("synchronising the device waits for non-blocking streams",
        ("scheduler.cpp", "if (!s->blocking()) all.push_back(", "if (false) all.push_back("),
        "synchronising the device waits for non-blocking streams")
without("synchronising a stream waits for that stream only",
        ("stream.cpp", "wait_for(lock, unfinished(*s));", "wait_for_device(lock, s->owner);"),
        "synchronising a stream does not wait for another")
without("the work of a destroyed stream is still done",
        ("scheduler.cpp", "    s->destroyed = true;\n", "    s->destroyed = true;\n    s->queue.clear();\n"),
        "destroying a stream returns at once, and its work still runs",
        "an event recorded on a destroyed stream completes")
without("destroying a stream does not wait",
        ("stream.cpp", "--m.live.streams;\n",
         "--m.live.streams;\n        if (s->last) wait_for(lock, operation_ref{s->last});\n"),
        "destroying a stream returns at once, and its work still runs")
without("default streams cannot be destroyed",
        ("stream.cpp", "if (is_default(handle)) return bad_handle();", "if (is_default(handle)) return cudaSuccess;"),
        "the default streams cannot be destroyed")
without("a handle is not used again",
        ("registry.hpp", "++slots_[index].generation;", ""),
        "the handle of a destroyed stream or event is never used again")
without("a stream keeps its priority", ("stream.cpp", "*priority = s->priority;", "*priority = 0;"),
        "a stream's flags, priority, device and unique id can be queried")
without("streams are told apart by number", ("stream.cpp", " : s->id;", " : 1;"),
        "a stream's flags, priority, device and unique id can be queried")
without("streams have known flags only",
        ("stream.cpp", "if (!out || (flags & ~unsigned{cudaStreamNonBlocking}) != 0)", "if (!out)"),
        "creating a stream with unknown flags is refused")
without("streams are not scarce",
        ("stream.cpp", "++m.live.streams;", "if (++m.live.streams > 300) return cudaErrorLaunchOutOfResources;"),
        "hundreds of streams can be created")

# ---- Host functions

without("a host function may not call CUDA", ("calls.cpp", "if (caller.doing != activity::host) {", "if (false) {"),
        "host functions and callbacks may not call CUDA",
        "only code inside a kernel is recognised as such")
without("a host function runs once", ("launch.cpp", "call_host_function([&] { call(data); });",
                                     "call_host_function([&] { call(data); call(data); });"),
        "a host function runs once, in stream order")
without("a callback is told the state of its stream",
        ("launch.cpp", "call(handle, failure_of(s->owner), data);", "call(handle, cudaErrorUnknown, data);"),
        "a callback runs in stream order and receives its stream's status")

# ---- Events

without("an event that was never recorded is complete",
        ("event.cpp", "if (!e.recorded) return cudaSuccess;", "if (!e.recorded) return cudaErrorNotReady;"),
        "an event that was never recorded is complete")
without("a wait stands for the record before it: there was none",
        ("stream.cpp", "if (!e->recorded) return cudaSuccess;",
         """if (!e->recorded) {
            enqueue(lock, s, make_task([e] {
                        for (bool over = false; !over;) {
                            guard look{the_machine().mutex};
                            over = e->recorded && e->recorded->done;
                        }
                    }));
            return cudaSuccess;
        }"""),
        "waiting for an event before it is recorded has no effect",
        "an event that was never recorded is complete")
without("a wait stands for the record before it: there is another since",
        ("stream.cpp",
         """        auto work = make_task([] {});
        order(*work, e->recorded);
        enqueue(lock, s, std::move(work), pace::at_once);
""",
         """        enqueue(lock, s, make_task([e] {
                    for (bool over = false; !over;) {
                        guard look{the_machine().mutex};
                        over = e->recorded->done;
                    }
                }));
"""),
        "recording an event again does not change earlier waits")
without("an event is not done before its work",
        ("event.cpp", "if (!e.recorded->done) return let_some_go_on(lock, {{e.recorded, {}}}), cudaErrorNotReady;",
         "if (!e.recorded->done) return cudaSuccess;"),
        "an event completes when the work before it has completed",
        "an event recorded on a destroyed stream completes")
without("synchronising an event waits for it",
        ("event.cpp", "waits.blocking : waits.active);\n            wait_for(lock, work);", "waits.blocking : waits.active);\n            (void)work;"),
        "an event completes when the work before it has completed")
without("synchronising an event waits for nothing after it",
        ("event.cpp", "trim_at_synchronisation(e->owner);", "wait_for_device(lock, e->owner);"),
        "an event does not wait for work that was enqueued after it")
without("a stream waits for an event",
        ("stream.cpp", "order(*work, e->recorded);", ""),
        "a stream waits for an event of another stream",
        "synchronising a stream waits for a pending wait without later work",
        "recording an event again does not change earlier waits",
        "destroying an event does not cancel waits for it",
        "many streams can wait for one event",
        "requested order is kept with any delays")
without("events tell the time between them",
        ("event.cpp", "duration<float, std::milli>(*b->when - *a->when)",
         "duration<float, std::milli>(*a->when - *a->when)"),
        "the elapsed time between two events is that between their completions")
without("events without timing have no elapsed time",
        ("event.cpp", "((a->flags | b->flags) & cudaEventDisableTiming) ||", ""),
        "events without timing have no elapsed time")
without("events have known flags only", ("event.cpp", "(flags & ~known_flags) != 0 ||", ""),
        "creating an event with unknown or contradicting flags is refused")
without("an event belongs to the device of its stream", ("event.cpp", "if (&e->owner != &s->owner)", "if (false)"),
        "events, kernels and pools belong to one device")
without("a kernel is launched on the current device",
        ("launch.cpp", "if (&s->owner != &current_device())", "if (false)"),
        "events, kernels and pools belong to one device")

# ---- Copies

without("a pageable source is read before the call returns",
        ("copy.cpp", "usual && from.pageable() && to.device()", "false"),
        "a copy from pageable memory has read its source when it returns")
without("a pinned source is read in its turn",
        ("copy.cpp", "usual && from.pageable() && to.device()", "usual && !from.device() && to.device()"),
        "a copy from pinned memory reads its source in stream order",
        "registered memory is copied from like pinned memory")
without("a copy to pageable memory waits", ("copy.cpp", "(to.pageable() || between_hosts", "(between_hosts"),
        "a copy to pageable memory returns after it has completed")
without("a copy to pinned memory does not wait", ("copy.cpp", "(c.wait && !both_on_device)", "!both_on_device"),
        "a copy to pinned memory completes in stream order",
        "rectangles are copied in stream order")
without("the plain copy between host and device waits", ("copy.cpp", "(c.wait && !both_on_device)", "false"),
        "cudaMemcpy between host and device waits for earlier work and for its own end")
without("the plain copy within the device does not wait", ("copy.cpp", "(c.wait && !both_on_device)", "c.wait"),
        "cudaMemcpy within the device and cudaMemset may return before they have run")
without("words of a memset are aligned",
        ("copy.cpp", "    if (reinterpret_cast<std::uintptr_t>(to) % value.bytes != 0) return cudaErrorInvalidValue;\n", ""),
        "words of two and four bytes at misaligned addresses are refused")
without("a memset writes whole words", ("copy.cpp", "value[(done + i) % what.bytes]", "value[0]"),
        "the driver sets words of one, two and four bytes")
without("a word is whole across pages", ("copy.cpp", "value[(done + i) % what.bytes]", "value[i % what.bytes]"),
        "words are set across pages that are not adjacent")
without("a memset of the driver is a memset's node", ("capture.cpp", "        case function::cuMemsetD32Async:\n        case function::cudaMemset2DAsync: return", "        case function::cudaMemset2DAsync: return"),
        "a memset of the driver is a node of a graph")
without("stream 0 may be the thread's own", ("driver.cpp", "is_own ? e->of_own_stream : e->address;", "e->address;"),
        "stream 0 of the driver's memsets is the default stream of the requested entry point")
without("the plain memset of device memory does not wait",
        ("copy.cpp", "|| where->kind == memory_kind::device) return result;", ") return result;"),
        "cudaMemcpy within the device and cudaMemset may return before they have run")
without("a copy finds out where its pointers belong",
        ("copy.cpp", "case cudaMemcpyDefault: return true;", "case cudaMemcpyDefault: return false;"),
        "cudaMemcpyDefault finds the direction by the pointers")
without("a copy between host memories waits", ("copy.cpp", "|| between_hosts ||", "||"),
        "a copy between host memories has completed when it returns")
without("copies of nothing succeed", ("copy.cpp", "if (c.bytes == 0) return cudaSuccess;", ""),
        "copies of zero bytes succeed, and unknown directions fail")
without("a copy stays in its allocation",
        ("virtual_memory.cpp", "return bytes <= first->bytes - offset;", "return true;"),
        "a copy beyond its allocation is an invalid value")
without("the direction fits the pointers",
        ("copy.cpp", "if (!direction_fits(to, from, c.kind)) return", "if (false) return"),
        "a copy whose direction does not fit its pointers is an invalid value")
without("managed memory is the device's as well",
        ("copy.cpp", "memory->kind == memory_kind::device || memory->kind == memory_kind::managed",
         "memory->kind == memory_kind::device"),
        "managed memory is accessible by the host and the device")
without("each side of a rectangle has a pitch",
        ("copy_shapes.cpp", "static_cast<std::byte*>(row.to) + to_pitch;",
         "static_cast<std::byte*>(row.to) + from_pitch;"),
        "a rectangle is copied row by row, with the pitches of source and destination")
without("a rectangle is looked at before a row is copied",
        ("copy_shapes.cpp",
         "if (auto const error = check(row.to, to_pitch, shape, access::write); error != cudaSuccess) return error;",
         ""),
        "an invalid rectangle is refused, and nothing is copied")
without("a rectangle ends with its last row",
        ("copy_shapes.cpp", "__builtin_mul_overflow(pitch, height - 1, &bytes)",
         "__builtin_mul_overflow(pitch, height, &bytes)"),
        "the last row of a rectangle may be shorter than the pitch")
without("a batch performs all of its copies",
        ("copy_shapes.cpp", "for (auto i = b.count; i-- != 0 &&", "for (auto i = b.count; i-- > 1 &&"),
        "a batch performs all of its copies")
without("a batch reads its sources during the call if told to",
        ("copy_shapes.cpp", "case cudaMemcpySrcAccessOrderDuringApiCall: return source_read::now;",
         "case cudaMemcpySrcAccessOrderDuringApiCall: return source_read::in_order;"),
        "a batch reads its sources at the requested time")
without("a batch has a stream",
        ("copy_shapes.cpp", "if (s == nullptr || s == cudaStreamLegacy || !b.makes_sense())", "if (!b.makes_sense())"),
        "an invalid batch is refused, and nothing is copied")
without("a copy between devices comes after the work of both",
        ("copy_shapes.cpp", "come_after_all(lock, s, {&current_device(), target, source});", ""),
        "a copy between devices is ordered after earlier work of both and before later work")

without("work of either device comes after a copy between them",
        ("copy_shapes.cpp", "if (result == cudaSuccess) go_before_all(", "if (false) go_before_all("),
        "a copy between devices is ordered after earlier work of both and before later work")

# ---- Errors and devices

without("the last error is fetched once", ("error.cpp", "    caller.last_error = cudaSuccess;\n", ""),
        "the last error remains until it is fetched")
without("success does not clear the last error", ("calls.cpp", "    if (error != cudaSuccess) {\n", "    {\n"),
        "the last error remains until it is fetched")
without("threads keep errors and devices apart",
        [("state.hpp", "extern thread_local constinit thread_info caller;", "extern constinit thread_info caller;"),
         ("calls.cpp", "thread_local constinit thread_info caller;", "constinit thread_info caller;")],
        "each thread has its own last error",
        "setting the device in one thread does not change it in another", CUOTA_SIM_DEVICES="2")
without("a thread starts on the first device",
        ("device.cpp", "if (auto* const d = find_device(caller.device)) return *d;",
         "if (auto* const d = find_device(caller.device + 1)) return *d;"),
        "each thread has a current device, initially device 0", CUOTA_SIM_DEVICES="2")
without("errors have texts",
        ("error.cpp", 'E(cudaErrorMemoryAllocation, "out of memory")', 'E(cudaErrorMemoryAllocation, "no memory")'),
        "errors have names and texts")
without("properties and attributes agree",
        ("device.cpp", "case cudaDevAttrWarpSize: return p.warpSize;", "case cudaDevAttrWarpSize: return 64;"),
        "attributes and properties of a device agree")
without("the driver is not older than the runtime",
        ("device.cpp", """    return api(function::cudaDriverGetVersion, [&](guard&) {
        if (!version) return cudaErrorInvalidValue;
        *version = CUDART_VERSION;""",
         """    return api(function::cudaDriverGetVersion, [&](guard&) {
        if (!version) return cudaErrorInvalidValue;
        *version = CUDART_VERSION - 1;"""),
        "the driver is at least as new as the runtime")
without("a failed device fails every call",
        ("calls.cpp", "auto const failure = failure_of(current_device());", "auto const failure = cudaSuccess;"),
        "a failed device fails every call until the machine is reset")
without("a kernel that throws fails its device",
        ("launch.cpp", "fail_device(*owner, cudaErrorLaunchFailure,", "(void)("),
        "an exception in a kernel makes the device fail, with its text",
        "work behind a failed kernel is discarded, and its bodies are destroyed")

# ---- Memory

without("device memory is aligned to 256 bytes", ("backing.cpp", "alignment = 256;", "alignment = 16;"),
        "device memory is aligned and reduces the free memory of the device")
without("freed memory is given back", ("memory.cpp", "{ d.used -= units; }", "{ (void)d; (void)units; }"),
        "free bytes are exact, and a refused allocation changes nothing")
without("allocating nothing succeeds",
        ("memory.cpp", "if (bytes == 0) return cudaSuccess;", "if (bytes == 0) return cudaErrorInvalidValue;"),
        "allocating zero bytes returns null, and freeing null succeeds")
without("a device has an end",
        [("memory.cpp", "if (too_large(bytes) || bytes > d.capacity) return", "if (too_large(bytes)) return"),
         ("memory.cpp", "        if (!take_from_device(d, in_units(bytes))) return cudaErrorMemoryAllocation;\n",
          "        d.used += in_units(bytes);\n")],
        "an allocation that does not fit fails with out of memory")
without("freeing waits for the device",
        ("memory.cpp", "if (concerned) wait_before_free(", "if (false) wait_before_free("),
        "freeing device memory waits for the device")
without("freeing waits for nothing where that is asked for",
        ("memory.cpp", "if (m.free_at_once) return;", ""),
        "an immediate free does not wait, and reports work that may still use the memory")
without("freed memory rests while work may touch it",
        ("memory.cpp", "if (until.empty()) return give_memory(", "if (true) return give_memory("),
        "memory that is freed at once is not reused while work may access it")
without("unmapping what is in use is a race",
        ("virtual_memory.cpp", "ordering::host_frees(*a, name_of(caller.calling));", ""),
        "unmapping memory that work may use is a race")
without("host functions take turns where that is asked for", ("launch.cpp", "if (m.serial_host) turn.lock();", ""),
        "serialised host functions: one that blocks delays those of other streams and no other work")
without("an older error is found where that is asked for",
        ("calls.cpp", "if (is_clean) remember(cudaErrorInvalidTexture);", "(void)is_clean;"),
        "stale errors: each call finds an earlier error of other code")
without("pinned memory is freed as pinned memory",
        ("memory.cpp", "if (!a || a->kind != memory_kind::pinned) return refuse_free(address);",
         "if (!a) return refuse_free(address);"),
        "freeing a pointer that is not an allocation's start is an invalid value")
without("managed memory is known for what it is", ("memory.cpp", "? cudaMemoryTypeManaged", "? cudaMemoryTypeDevice"),
        "a pointer's attributes have the kind of its memory")
without("pinned memory keeps its flags",
        ("memory.cpp", "*flags = a->flags | cudaHostAllocMapped;", "*flags = cudaHostAllocMapped;"),
        "pinned memory has flags and a device address")
without("memory is registered once", ("memory.cpp", "if (overlaps_pinned(address, bytes)) return", "if (false) return"),
        "registered memory is pinned until it is unregistered")

# ---- Pools

without("stream-ordered memory is there when the stream has got to it",
        ("pool.cpp", "a.now = allocation::phase::live;", ""),
        "stream-ordered memory can be used by later work of the stream")
without("stream-ordered memory is there no earlier and no later",
        ("copy.cpp", "if (!hole && a->now == allocation::phase::live) return true;", "return true;"),
        "using stream-ordered memory before its allocation or after its free fails the device")
without("allocating in a stream does not wait",
        ("pool.cpp", "ordering::access const born[] =", "wait_for(lock, work);\n    ordering::access const born[] ="),
        "allocating and freeing in stream order do not wait")
without("a free in a stream is for pools",
        ("pool.cpp", "|| !a->from) return refuse_free(address);", ") return refuse_free(address);"),
        "cudaFreeAsync frees only memory of a pool, and only once")
without("the plain free gives back to the pool",
        ("memory.cpp", "if (a->from) return_to_pool(*a->from, a->units);", "if (a->from) {}"),
        "cudaFree frees stream-ordered memory, too")
without("a pool lets go at synchronisation", ("pool.cpp", "trim_pool(*p, p->threshold);", "(void)p;"),
        "a pool keeps free memory up to its threshold when the host synchronises")
without("a pool keeps what its threshold allows", ("pool.cpp", "trim_pool(*p, p->threshold);", "trim_pool(*p, 0);"),
        "a pool keeps free memory up to its threshold when the host synchronises")
without("a pool can be trimmed", ("pool.cpp", "trim_pool(p, keep);", ""),
        "a pool keeps free memory up to its threshold when the host synchronises")
without("high-water marks can be lowered",
        ("pool.cpp", "p.reserved_peak = p.reserved();\n            return", "return"),
        "a pool keeps free memory up to its threshold when the host synchronises")
without("memory outlives its pool",
        ("pool.cpp", "        p.destroyed = true;\n",
         "        p.destroyed = true;\n        for (auto const& [key, a] : m.memory)\n"
         "            if (a->from.get() == &p) a->now = allocation::phase::released;\n"),
        "memory in use is not affected by trimming or destroying its pool")
without("the default pool takes the place of a destroyed one",
        ("pool.cpp", "if (d.current_pool_handle == handle) d.current_pool_handle = d.default_pool_handle;", ""),
        "a device has a current pool, initially its default pool")
without("the default pool stays", ("pool.cpp", "if (p.is_default) return cudaErrorInvalidValue;", ""),
        "a device has a current pool, initially its default pool")
without("allocations come from the current pool",
        ("pool.cpp", "the_machine().pools.find(d.current_pool_handle)",
         "the_machine().pools.find(d.default_pool_handle)"),
        "a device has a current pool, initially its default pool")
without("the default pool of a location is not its current one",
        ("default_pool.cpp", "return give(out, pools.given);", "return give(out, pools.current);"),
        "the default pool of a location is that of its device")
without("pools of managed memory are others",
        ("default_pool.cpp", "return managed ? use(", "return false ? use("),
        "managed memory has its own default pool")
without("a pool has a largest size", ("pool.cpp", "return p.limit == 0 ? here", "return true ? here"),
        "a pool with a maximum size refuses allocations beyond it")
without("the reuse rules can be set", ("pool.cpp", "p.opportunistic = flag();", ""),
        "the reuse rules of a pool can be read and set")
without("pools take their memory from the device",
        ("pool.cpp", "if (!charge(p, units - from_cache)) return false;", ""),
        "plain and stream-ordered memory share the device's capacity")
without("another stream waits for the memory it gets", ("pool.cpp", "        order(work, f->work);\n", ""),
        "freed stream-ordered memory is available to its stream at once, to others after the free")

# ---- Managed memory

without("managed memory starts without advice",
        ("managed.cpp", "nowhere{cudaMemLocationTypeInvalid, cudaInvalidDeviceId}",
         "nowhere{cudaMemLocationTypeDevice, 0}"),
        "managed memory starts without advice")
without("advice ends with its range",
        ("managed.cpp", "auto const end = split(range.end);", "split(range.end);\n    auto const end = from.end();"),
        "advice applies only to the pages of its range")
without("a preferred location is kept", ("managed.cpp", "s.preferred = normal(where);", ""),
        "a preferred location can be the host or a device")
without("users are listed", ("managed.cpp", "s.accessed_by |= who;", ""), "devices with access to managed memory are listed")
without("the last prefetch is kept", ("managed.cpp", "state.prefetched = normal(where);", ""),
        "the last prefetch location can be queried, and prefetching keeps the contents")
without("advice is for managed memory",
        ("managed.cpp", "if (!a || a->kind != memory_kind::managed || bytes == 0)", "if (!a || bytes == 0)"),
        "advice and prefetches for other memory or unknown locations are refused")

# ---- Kernels

without("warps are whole", ("kernels.cpp", "(threads + warp - 1) / warp * warp;", "threads;"),
        "occupancy is limited by a multiprocessor's threads, blocks and shared memory")
without("occupancy is of at least one thread", ("kernels.cpp", "|| threads <= 0 ||", "||"),
        "an occupancy query without a function or with zero threads is refused")
without("shared memory can be raised", ("kernels.cpp", "dynamic_shared()[kernel] = value;", ""),
        "a kernel's attributes can be read, and its limit of shared memory can be raised")
without("a launch copies its arguments",
        ("kernel_launch.cpp", "        made->arguments.push_back(at);\n",
         "        made->arguments.push_back(arguments[i]);\n"),
        "a launch copies its arguments immediately")

# ---- Virtual memory

without("a driver function has a first version", ("driver.cpp", "e && (is_own ? own_streams_since : e->since) <= version;", "e;"),
        "the driver's functions are looked up by name and version")
without("an unknown error has no name", ("driver.cpp", "*out = e ? e->*which : nullptr;", '*out = e ? e->*which : "";'),
        "the driver's errors have names")
without("driver and runtime have one current device",
        ("driver.cpp", "*out = current_device().index;", "*out = current_device().index + 1;"),
        "the driver's current device equals the runtime's")
without("granularity is 2 MiB",
        ("virtual_memory.cpp", "granularity = std::size_t{2} << 20;", "granularity = std::size_t{1} << 20;"),
        "invalid calls of the driver's virtual memory are invalid values")
without("mapped memory is the device's",
        ("virtual_memory.cpp", "a->kind = memory_kind::device;", "a->kind = memory_kind::pinned;"),
        "mapped memory is device memory")
without("a mapping shows the memory itself",
        ("virtual_memory.cpp", "MAP_SHARED | MAP_FIXED,", "MAP_PRIVATE | MAP_FIXED,"),
        "memory that is mapped twice has the same contents at both addresses",
        "contents belong to the physical memory, not to its address")
without("neighbours are one piece",
        ("virtual_memory.cpp", "if (!first->mapped) return bytes <= ", "return bytes <= "),
        "adjacent mappings can be accessed as one range")
without("unmapping keeps contents",
        ("virtual_memory.cpp", "    --a->mapped->memory->mappings;\n",
         "    --a->mapped->memory->mappings;\n    give_pages_back(known(), *a->mapped->memory);\n"),
        "contents belong to the physical memory, not to its address")
without("a new mapping has no access",
        ("virtual_memory.cpp", "a->mapped = std::make_shared<mapping>();",
         "a->mapped = std::make_shared<mapping>();\n    a->mapped->of_device.fill(access::write);"),
        "a new mapping has no access")
without("a range is mapped once",
        ("virtual_memory.cpp", "reservation_of(start, bytes) == 0 || any_mapping_in(start, bytes))",
         "reservation_of(start, bytes) == 0)"),
        "a range cannot be mapped twice at a time")
without("memory is mapped into a reservation",
        ("virtual_memory.cpp", "if (!fits || reservation_of(start, bytes) == 0 ||", "if (!fits ||"),
        "memory is mapped in whole multiples of the granularity, within a reservation")
without("unmapping takes all mappings of a range",
        ("virtual_memory.cpp", "for (auto const& a : all) remove_mapping(a);", "remove_mapping(all.front());"),
        "one call unmaps several mappings")
without("mapped memory outlives its handle",
        ("virtual_memory.cpp", "if (--p->handles == 0) known().physical.remove(at(handle));",
         """if (--p->handles == 0) {
            known().physical.remove(at(handle));
            for (auto const& [key, a] : the_machine().memory)
                if (a->mapped && a->mapped->memory == p) a->now = allocation::phase::released;
        }"""),
        "mapped memory outlives its handle")
without("a reservation is given back whole", ("virtual_memory.cpp", "found->second.bytes != bytes ||", ""),
        "a reservation is freed only as a whole and when nothing is mapped")
without("a reservation is aligned",
        ("virtual_memory.cpp", "find_space(bytes, std::max(alignment, granularity), hint)",
         "find_space(bytes + granularity, std::max(alignment, granularity), hint) + granularity"),
        "a reservation has the requested alignment")
without("mapped memory is not freed", ("memory.cpp", "a && !a->mapped &&", "a &&"),
        "cudaFree refuses mapped memory")
without("the driver leaves no last error",
        ("driver.hpp", "        return error == CUDA_SUCCESS ? result : error;",
         "        if (result != CUDA_SUCCESS) (void)remember(cudaErrorUnknown);\n"
         "        return error == CUDA_SUCCESS ? result : error;"),
        "an error of the driver does not set the runtime's last error")

# ---- Captures

without("captured work does not run",
        ("scheduler.cpp", "if (on->capturing.in) return add_to_capture(*on, std::move(work));", ""),
        "captured work does not run until its graph is launched")
without("a stream knows that it captures",
        ("capture.cpp", "if (!s.capturing.in) return cudaStreamCaptureStatusNone;",
         "return cudaStreamCaptureStatusNone;"),
        "a stream's capture status can be queried")
without("a capture ends for all of its streams",
        ("capture.cpp", "if (auto const s = weak.lock()) s->capturing = {};",
         "if (auto const s = weak.lock(); s.get() == c.origin) s->capturing = {};"),
        "a stream that waits for a captured event joins the capture",
        "a stream that has joined a capture must be joined back before its end")
without("captures are told apart by number", ("capture.cpp", "capture{++captures, ", "capture{1, "),
        "a capture has a unique id, a graph and the dependencies of its next node")
without("a capture tells what the next node comes after",
        ("capture.cpp", "if (count) *count = s->capturing.tips.size();", "if (count) *count = 0;"),
        "a capture has a unique id, a graph and the dependencies of its next node")
without("dependencies can be replaced",
        ("capture.cpp", "if (flags == cudaStreamSetCaptureDependencies)\n", "if (false)\n"),
        "the dependencies of a capture's next node can be changed")
without("a dependency that was taken back need not be joined",
        ("capture.cpp", "for (auto const old : std::exchange(s->capturing.tips, {})) all[old]->excused = true;",
         "s->capturing.tips.clear();"),
        "the dependencies of a capture's next node can be changed")
without("the legacy stream cannot capture",
        ("capture.cpp", "if (s->legacy) return note_refusal(cudaErrorStreamCaptureUnsupported, nullptr);", ""),
        "a capture cannot begin on the legacy stream or on a stream that already captures")
without("a stream captures once at a time",
        ("capture.cpp", "if (s->capturing.in) return invalidate(*s->capturing.in, cudaErrorIllegalState);", ""),
        "a capture cannot begin on the legacy stream or on a stream that already captures")
without("only a capture can be ended",
        ("capture.cpp", "if (!c) return cudaErrorIllegalState;", "if (!c) return cudaSuccess;"),
        "a capture cannot begin on the legacy stream or on a stream that already captures")
without("captures have known modes", ("capture.cpp", "if (!is_mode(mode)) return cudaErrorInvalidValue;", ""),
        "a capture cannot begin on the legacy stream or on a stream that already captures")
without("only what becomes a node is allowed on a capturing stream",
        ("capture.cpp", "return can_be_captured(f) ? cudaSuccess :", "return true ? cudaSuccess :"),
        "a capturing stream cannot be waited for or queried, and the attempt ends the capture",
        "a callback of cudaStreamAddCallback or an attachment of memory cannot be captured")
without("a forbidden call ends the capture", ("capture.cpp", "    c.invalid = true;\n", ""),
        "a capturing stream cannot be waited for or queried, and the attempt ends the capture",
        "a device cannot be waited for while one of its streams captures",
        "the legacy stream is unusable while a blocking stream captures",
        "captured work cannot wait for work outside of the capture")
without("an invalid capture takes nothing more",
        ("capture.cpp", "if (c.invalid) return cudaErrorStreamCaptureInvalidated;", ""),
        "a capturing stream cannot be waited for or queried, and the attempt ends the capture")
without("an invalid capture gives no graph", ("capture.cpp", "|| c.invalid) return", ") return"),
        "a capturing stream cannot be waited for or queried, and the attempt ends the capture",
        "a device cannot be waited for while one of its streams captures")
without("a captured event cannot be queried",
        ("event.cpp", "if (e.captured.in) return refuse_captured(e);", ""),
        "an event recorded in a capture cannot be queried or waited for")
without("a captured event cannot be waited for",
        ("event.cpp", "if (e->captured.in) return refuse_captured(*e);", ""),
        "an event recorded in a capture cannot be queried or waited for")
without("a captured event has no time",
        [("event.cpp", "if (a->captured.in) return refuse_captured(*a);", ""),
         ("event.cpp", "if (b->captured.in) return refuse_captured(*b);", "")],
        "an event recorded in a capture cannot be queried or waited for")
without("an event is a captured one until it is recorded elsewhere", ("event.cpp", "    e->captured = {};", "    "),
        "an event recorded in a capture cannot be queried or waited for")
without("a device cannot be waited for while one of its streams captures",
        ("capture.cpp", "if (f == function::cudaDeviceSynchronize) return refuse_device(current_device());", ""),
        "a device cannot be waited for while one of its streams captures")
without("unsafe calls are refused during a capture",
        ("capture.cpp", "unsafe(f) || f == function::cudaMemcpyPeer ||", "f == function::cudaMemcpyPeer ||"),
        "a thread cannot allocate during its capture unless the capture or the thread is relaxed",
        "a global capture restricts all threads in global mode",
        "an event that was not captured cannot be queried during a capture unless it is relaxed")
without("a relaxed thread may make unsafe calls",
        ("capture.cpp", "if (caller.capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;", ""),
        "a thread cannot allocate during its capture unless the capture or the thread is relaxed")
without("unsafe calls are allowed during a relaxed capture",
        ("capture.cpp", "if (c.thread == me) return c.mode != cudaStreamCaptureModeRelaxed;",
         "if (c.thread == me) return true;"),
        "a thread cannot allocate during its capture unless the capture or the thread is relaxed",
        "an event that was not captured cannot be queried during a capture unless it is relaxed")
without("a global capture concerns other threads",
        ("capture.cpp", "return c.mode == cudaStreamCaptureModeGlobal && caller.", "return false && caller."),
        "a global capture restricts all threads in global mode")
without("only a global capture concerns other threads",
        ("capture.cpp", "return c.mode == cudaStreamCaptureModeGlobal && caller.", "return caller."),
        "a global capture restricts all threads in global mode")
without("a global capture concerns no thread that thinks of its own captures only",
        ("capture.cpp", "cudaStreamCaptureModeGlobal && caller.capture_mode == cudaStreamCaptureModeGlobal;",
         "cudaStreamCaptureModeGlobal;"),
        "a global capture restricts all threads in global mode")
without("a thread's capture mode comes back",
        ("capture.cpp", "std::swap(*mode, caller.capture_mode);", "caller.capture_mode = *mode;"),
        "exchanging a thread's capture mode returns the previous mode")
without("threads have known capture modes",
        ("capture.cpp", "if (!mode || !is_mode(*mode)) return", "if (!mode) return"),
        "exchanging a null or unknown capture mode is an invalid value")
without("events are not queried during a capture", ("capture.cpp", "        case function::cudaEventQuery:\n", ""),
        "an event that was not captured cannot be queried during a capture unless it is relaxed")
without("the legacy stream is unusable while a blocking stream captures",
        ("capture.cpp", "if (auto const error = refuse_legacy(s.owner); error != cudaSuccess) return error;", ";"),
        "the legacy stream is unusable while a blocking stream captures")
without("asking about the legacy stream ends no capture",
        [("capture.cpp", "if (s.legacy && asks_about_captures(f)) {", "if (false) {"),
         ("capture.cpp", "if (asks_about_captures(f) || ",
          "if ((!s.legacy && asks_about_captures(f)) || ")],
        "querying the legacy stream's capture status does not end the capture of a blocking stream")
without("the legacy stream cannot be asked while a blocking stream captures",
        ("capture.cpp", "return unusable ? cudaErrorStreamCaptureImplicit : cudaSuccess;", "return cudaSuccess;"),
        "querying the legacy stream's capture status does not end the capture of a blocking stream")
without("the legacy stream does not care for captures of non-blocking streams",
        ("capture.cpp", "return &s.owner == &d && s.blocking();", "return &s.owner == &d;"),
        "the legacy stream can run work while a non-blocking stream captures")
without("a capture concerns its own streams",
        ("capture.cpp", "if (!s.capturing.in) return synchronous(f) ? refuse_unsafe() : cudaSuccess;",
         "if (!s.capturing.in) return can_be_captured(f) ? cudaSuccess : refuse_device(s.owner);"),
        "other streams can run work while one captures")
without("a wait for a captured event is not one for work",
        ("stream.cpp", "if (s->capturing.in || e->captured.in) return", "if (s->capturing.in) return"),
        "a stream that waits for a captured event joins the capture",
        "work outside of a capture cannot wait for captured work")
without("what was drawn in must be joined",
        ("capture.cpp", "return unjoined(*c.into, s.capturing.tips) ?", "return false ?"),
        "a stream that has joined a capture must be joined back before its end")
without("a capture ends on its first stream",
        ("capture.cpp", "if (c->origin != s.get()) return invalidate(*c, cudaErrorStreamCaptureUnmatched);", ""),
        "a capture ends on the stream where it began")
without("a capture ends on its thread",
        ("capture.cpp", "if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != this_thread())", "if (false)"),
        "a capture ends on the thread where it began, unless it is relaxed")
without("a relaxed capture ends on any thread",
        ("capture.cpp", "if (c->mode != cudaStreamCaptureModeRelaxed && c->thread != this_thread())",
         "if (c->thread != this_thread())"),
        "a capture ends on the thread where it began, unless it is relaxed")
without("captures do not merge", ("capture.cpp", "if (to && to != from) {", "if (false) {"),
        "two captures cannot be merged")
without("a capture waits for nothing outside",
        ("capture.cpp", "if (!from) return e->recorded ?", "if (!from) return false ?"),
        "captured work cannot wait for work outside of the capture")
without("nothing outside waits for what was captured",
        ("capture.cpp", "if (!from->into) return to ?", "if (!from->into) return !to ? cudaSuccess : to ?"),
        "work outside of a capture cannot wait for captured work")
without("a stream goes on after its capture where it stood before",
        ("capture.cpp", "    s->capturing = {c, {}};\n", "    s->capturing = {c, {}};\n    s->last = nullptr;\n"),
        "work before a capture does not order the graph, nor does the graph order later work")
without("captured copies read pageable memory when they run",
        ("copy.cpp", "c.read == source_read::usual && !s->capturing.in;", "c.read == source_read::usual;"),
        "pageable memory is read and written when the graph runs")
without("external records are for captures",
        ("event.cpp", "if (flags != cudaEventRecordDefault) return cudaErrorIllegalState;", ""),
        "external events are refused outside of a capture")
without("external waits are for captures",
        ("stream.cpp", "if (flags != cudaEventWaitDefault) return cudaErrorIllegalState;", ""),
        "external events are refused outside of a capture")
without("a launch waits for external events",
        ("graph_launch.cpp", "if (what.node->type == cudaGraphNodeTypeWaitEvent &&", "if (false &&"),
        "each launch records its external events and waits for those of the graph")
without("a launch records external events",
        ("graph_launch.cpp", "return e->recorded = make_task(", "return make_task("),
        "each launch records its external events and waits for those of the graph")
without("the thread's own stream can capture",
        ("capture.cpp", "return s ? begin(s, mode) : bad_handle();",
         "return s && handle != cudaStreamPerThread ? begin(s, mode) : bad_handle();"),
        "the thread's own default stream can capture")
without("errors of captures have texts",
        ("error.cpp", '    E(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),\n', ""),
        "the errors of captures have names and texts")

# ---- Graphs

without("a graph can be launched again",
        ("graph_launch.cpp", "for (auto const& part : node->work) {",
         "for (auto const& part : std::exchange(node->work, {})) {"),
        "each launch runs all nodes of the graph in order",
        "a graph's copies read their sources anew at each launch",
        "pageable memory is read and written when the graph runs")
without("a graph runs in the order of its capture",
        ("graph_launch.cpp", "for (auto const& s : exec_.steps) put(s);",
         """done_.resize(exec_.steps.size());
        for (auto i = exec_.steps.size(); i-- != 0;) put(exec_.steps[i]);"""),
        "each launch runs all nodes of the graph in order")
without("a graph runs in the stream that it is launched in",
        ("graph_launch.cpp", "launch{lock, e, s}();", "launch{lock, e, s->owner.legacy}();"),
        "a graph runs in the order of the stream in which it is launched")
without("a graph waits for what stands before it on all branches",
        ("graph_launch.cpp", "if (what.after.empty() && s != on_) come_after(*s, *work, begin_);", ""),
        "every branch of a graph waits for earlier work of the stream")
without("what stands behind a graph waits for all branches",
        ("graph_launch.cpp", "if (lane(i) != on_) come_after(*on_, *end, lane(i)->last);", ";"),
        "later work of the stream waits for every branch of a graph")
without("a launch waits for no other stream",
        ("graph_launch.cpp", "        enqueue(lock_, on_, begin_);\n",
         """        for (auto const& other : on_->owner.streams)
            if (other->last) order(*begin_, other->last);
        enqueue(lock_, on_, begin_);
"""),
        "work before a capture does not order the graph, nor does the graph order later work",
        "two executables of one graph run independently")
without("a graph in the legacy stream waits for blocking streams",
        ("scheduler.cpp", "if (other->blocking() && other->last) order(work, other->last);",
         """if (other->blocking() && other->last && caller.calling != function::cudaGraphLaunch)
                order(work, other->last);"""),
        "the legacy stream orders graphs like other work")
without("launches of one executable follow each other",
        ("graph_launch.cpp", "if (exec_.last) come_after(*on_, *begin_, exec_.last);", ""),
        "launches of one executable graph do not overlap")
without("branches keep the order between them",
        ("graph_launch.cpp", "if (exec_.steps[before].lane != what.lane) come_after(*s, *work, done_[before]);", ""),
        "a join runs after all branches")
without("a join keeps what stood before it in the stream",
        ("capture.cpp", "add_tips(s->capturing.tips, e->captured.tips);", "s->capturing.tips = e->captured.tips;"),
        "a join runs after all branches")
without("an executable outlives its graph",
        ("graph.cpp", "    gone.value = forget_graph(handle);\n",
         "    gone.value = forget_graph(handle);\n        for (auto const& n : gone.value->nodes) n->work.clear();\n"),
        "an executable graph outlives its graph, and a launched graph outlives its executable")
without("a launch outlives its executable",
        ("graph_launch.cpp", "return make_task([node = what.node] {\n",
         """return make_task([weak = std::weak_ptr{what.node}] {
        auto const node = weak.lock();
        if (!node) return;
"""),
        "an executable graph outlives its graph, and a launched graph outlives its executable")
without("room for more nodes than there are is emptied",
        ("graph.cpp", "out[i] = there ? handle_of(all[i]) : nullptr;", "if (there) out[i] = handle_of(all[i]);"),
        "a graph's nodes and dependencies can be queried")
without("nodes have types", ("graph.cpp", "*type = n->type;", "*type = cudaGraphNodeTypeKernel;"),
        "a graph's nodes and dependencies can be queried")
without("a root depends on nothing", ("graph.cpp", "return n->after.empty();", "return true;"),
        "a graph's nodes and dependencies can be queried")
without("the rows of a copy are one node",
        ("capture.cpp", "tips.size() == 1 && nodes[tips[0]]->call == call_number;", "false;"),
        "a graph's nodes and dependencies can be queried")
without("edges have a direction",
        ("graph.cpp", "for (auto const from : g.nodes[to]->after) all.push_back({from, to});",
         "for (auto const from : g.nodes[to]->after) all.push_back({to, from});"),
        "a graph's nodes and dependencies can be queried")
without("an empty graph is one",
        ("graph_launch.cpp", "    plan(*e);\n    *out =",
         "    if (g->nodes.empty()) return cudaErrorInvalidValue;\n    plan(*e);\n    *out ="),
        "an empty graph can be launched")
without("graphs have no flags", ("graph.cpp", "if (!out || flags != 0) return cudaErrorInvalidValue;", ""),
        "an empty graph can be launched")
without("a graph is not launched into a capture",
        ("capture.cpp", "case function::cudaLaunchKernel:\n        case function::cuota_simulator_launch:",
         "case function::cudaGraphLaunch:\n        case function::cudaLaunchKernel:\n        case function::cuota_simulator_launch:"),
        "a graph cannot be launched into a capture")
without("a clone has nodes of its own",
        ("graph.cpp",
         "copy->nodes.push_back(std::make_shared<graph_node>(*n));\n        copy->nodes.back()->handle = 0;",
         "copy->nodes.push_back(n);"),
        "a clone is independent of its graph")
without("executables have known flags",
        ("graph_launch.cpp", "|| g->capturing || (flags & ~known) != 0) return", "|| g->capturing) return"),
        "a graph can be instantiated in three ways and uploaded")
without("executables keep their flags", ("graph_launch.cpp", ".flags = flags,", ".flags = 0,"),
        "a graph can be instantiated in three ways and uploaded")
without("an upload is over with the call",
        ("graph_launch.cpp", "*flags = e->flags & ~static_cast<unsigned long long>(cudaGraphInstantiateFlagUpload);",
         "*flags = e->flags;"),
        "a graph can be instantiated in three ways and uploaded")
without("an update changes what is launched",
        ("graph_launch.cpp", "    plan(*e);\n        begin_use(*g);", "    begin_use(*g);"),
        "an executable graph can be updated with a graph of the same shape")
without("an update wants as many nodes",
        ("graph_launch.cpp", "if (had.nodes.size() != g.nodes.size()) return",
         "if (had.nodes.size() > g.nodes.size()) return"),
        "an executable graph can be updated with a graph of the same shape")
without("an update wants nodes of the same types",
        ("graph_launch.cpp", "if (was.type != is.type) return", "if (false) return"),
        "an executable graph can be updated with a graph of the same shape")
without("an update wants the same dependencies",
        ("graph_launch.cpp", "if (was.after != is.after) return", "if (false) return"),
        "an executable graph can be updated with a graph of the same shape")
without("an update that does not fit changes nothing",
        ("graph_launch.cpp", "if (what != cudaGraphExecUpdateSuccess) return cudaErrorGraphExecUpdateFailure;",
         """if (what != cudaGraphExecUpdateSuccess) {
            e->of = g;
            plan(*e);
            return cudaErrorGraphExecUpdateFailure;
        }"""),
        "an executable graph can be updated with a graph of the same shape")

# ---- Memory of graphs

without("a trim returns the memory of graphs",
        ("graph_memory.cpp", "    give_to_device(d, d.graphs.used - kept);\n    d.graphs.used = kept;\n", ""),
        "a graph takes memory for its allocations when it is first launched, and keeps it until a trim",
        "an upload takes the memory, and a launch after a trim takes it again")
without("an upload takes memory",
        ("graph_launch.cpp",
         "if (auto const error = take_graph_memory(e, *s); error != cudaSuccess) return error;\n                         auto work",
         "auto work"),
        "an upload takes the memory, and a launch after a trim takes it again")
without("executables of one stream share memory",
        ("graph_memory.cpp", "on_stream = std::max(on_stream, bytes);", "on_stream += bytes;"),
        "executables that run on one stream share memory, and those of two streams do not")
without("a launch allocates", ("graph_memory.cpp", "    a.now = allocation::phase::live;\n", ""),
        "an allocation of a graph can be used between its node and the free node",
        "a block that a graph does not free must be freed before its next launch")
without("a block that stays is freed before the next launch",
        ("graph_memory.cpp", "is_taken = is_taken || a.in_graph->is_taken;", "(void)a;"),
        "a block that a graph does not free must be freed before its next launch")
without("a launch frees the block of the last one, with the flag",
        ("graph_memory.cpp", "!(e.flags & cudaGraphInstantiateFlagAutoFreeOnLaunch)", "true"),
        "with AutoFreeOnLaunch a launch frees the block of the last one")
without("a graph with an allocation has one executable",
        ("graph_launch.cpp", "    if (g->executables != 0 && has_memory_nodes(*g)) return cudaErrorNotSupported;\n", ""),
        "a graph with an allocation has one executable and no clone")
without("a free node is given the first byte of a block",
        ("graph_memory.cpp", "|| a->address() != address || !a->in_graph) return", "|| !a->in_graph) return"),
        "a capture frees allocations of graphs only, and each of them once")
without("an allocation that fails leaves the capture valid",
        ("graph_memory.cpp", "if (too_large(bytes) || bytes > s->owner.capacity) return cudaErrorMemoryAllocation;",
         """if (too_large(bytes) || bytes > s->owner.capacity)
        return invalidate(*s->capturing.in, cudaErrorMemoryAllocation);"""),
        "an allocation in a capture that no device could serve fails, and the capture stays valid")
without("allocation nodes tell their size", ("graph_memory.cpp", "    out->bytesize = n->memory->bytes;\n", ""),
        "memory nodes tell their block and its size")
