// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "virtual_memory.hpp"
#include "closed_memory.hpp"
#include "driver.hpp"

#include <algorithm>
#include <bit>
#include <sstream>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

// All physical memory is one sparse memfd, pieces of which are mapped on request, even several times.
namespace cuota::inline v0::simulator {
namespace {

constexpr std::size_t granularity = std::size_t{2} << 20;

bool in_granules(std::size_t bytes) { return bytes != 0 && bytes % granularity == 0; }

void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

struct reservation {
    std::size_t bytes;
    origin made;
};

struct hole {
    std::int64_t offset;
    bool is_resident;  ///< the host's memory was not released
};

struct tables {
    std::map<std::uintptr_t, reservation> reserved;  ///< by their start
    registry<physical_memory> physical{0x56};
    std::vector<std::weak_ptr<physical_memory>> alive;
    int file = -1;
    std::byte* view = nullptr;  ///< the whole file, at the simulator's addresses
    std::int64_t end_of_file = 0;
    std::multimap<std::size_t, hole> holes;  ///< free pieces by their bytes, of equal ones the resident first
    std::size_t resident = 0;                ///< bytes of the free pieces that are resident
};

tables& known() {
    static auto* const the_one = new tables;  // never destroyed: static objects may free late
    return *the_one;
}

// ---- reservations ----

/// Returns zero if no reservation contains the whole range.
std::uintptr_t reservation_of(std::uintptr_t start, std::size_t bytes) {
    auto const& all = known().reserved;
    auto next = all.upper_bound(start);
    if (next == all.begin()) return 0;
    auto const& [first, range] = *--next;
    auto const offset = start - first;
    return offset < range.bytes && bytes <= range.bytes - offset ? first : 0;
}

bool touches_a_reservation(std::uintptr_t start, std::size_t bytes) {
    auto const& all = known().reserved;
    if (all.empty()) return false;
    auto next = all.lower_bound(start + bytes);
    return next != all.begin() && (--next, start - next->first < next->second.bytes || next->first >= start);
}

void* map_nothing(void* where, std::size_t bytes, int flags) {
    return mmap(where, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
}

/// Uses the hint if possible; returns zero on failure.
std::uintptr_t find_space(std::size_t bytes, std::size_t alignment, std::uintptr_t hint) {
    if (hint != 0 && hint % alignment == 0) {
        auto* const got = map_nothing(at(hint), bytes, 0);
        if (got == at(hint)) return hint;
        if (got != MAP_FAILED) munmap(got, bytes);
    }
    if (bytes > (std::size_t{1} << 46)) return 0;
    auto* const got = map_nothing(nullptr, bytes + alignment, 0);
    if (got == MAP_FAILED) return 0;
    auto const start = reinterpret_cast<std::uintptr_t>(got);
    auto const first = (start + alignment - 1) / alignment * alignment;
    if (first != start) munmap(got, first - start);
    munmap(at(first + bytes), start + alignment - first);
    return first;
}

// ---- physical memory ----

constexpr std::int64_t most_in_file = std::int64_t{1} << 38;

bool open_file(tables& t) {
    if (t.file >= 0) return true;
    t.file = memfd_create("simulated device memory", MFD_CLOEXEC);
    if (t.file < 0) return false;
    void* const view =
        mmap(nullptr, most_in_file, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, t.file, 0);
    if (view == MAP_FAILED) {
        close(std::exchange(t.file, -1));
        return false;
    }
    madvise(view, most_in_file, MADV_DONTDUMP);
    t.view = static_cast<std::byte*>(view);
    return true;
}

std::optional<std::int64_t> find_piece(tables& t, std::size_t bytes) {
    if (!open_file(t)) return std::nullopt;
    if (auto const found = t.holes.lower_bound(bytes); found != t.holes.end() && found->first == bytes) {
        hole const piece = found->second;
        t.holes.erase(found);
        if (piece.is_resident) t.resident -= bytes;
        return piece.offset;
    }
    auto const where = t.end_of_file;
    auto const end = where + static_cast<std::int64_t>(bytes);
    if (end > most_in_file || ftruncate(t.file, end) != 0) return std::nullopt;
    t.end_of_file = end;
    return where;
}

/// Adds a piece to the free ones. Up to 256 MiB of these keep the host's memory, so that the fill of the next piece of the same size has no page
/// faults, which take several times as long as the fill itself.
void give_pages_back(tables& t, physical_memory const& p) {
    constexpr std::size_t most_resident = std::size_t{256} << 20;
    bool const stays = t.resident + p.bytes <= most_resident;
    if (stays) {
        t.holes.emplace_hint(t.holes.lower_bound(p.bytes), p.bytes, hole{p.offset, stays});
        t.resident += p.bytes;
        return;
    }
    t.holes.emplace(p.bytes, hole{p.offset, stays});
    // Releases the host's memory too; on failure, that happens at exit.
    (void)fallocate(t.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, p.offset,
                    static_cast<std::int64_t>(p.bytes));
}

device& device_of(physical_memory const& p) {
    return *the_machine().all_devices[static_cast<std::size_t>(p.device)];
}

void drop_if_unused(physical_memory const& p) {
    if (p.handles != 0 || p.mappings != 0) return;
    give_pages_back(known(), p);
    give_to_device(device_of(p), p.bytes);
    auto& live = the_machine().live;
    --live.device_allocations;
    live.device_bytes -= p.bytes;
}

std::uint64_t add_physical(tables& t, device& d, std::size_t bytes, bool is_for_rdma) {
    auto& m = the_machine();
    auto const where = find_piece(t, bytes);
    if (!where) return 0;
    auto p = std::make_shared<physical_memory>(physical_memory{.bytes = bytes,
                                                               .device = d.index,
                                                               .offset = *where,
                                                               .number = m.next_allocation++,
                                                               .made_at = here(),
                                                               .is_for_rdma = is_for_rdma});
    // Not zeroed: a program may not rely on zeros.
    fill_new(t.view + p->offset, {.checks = m.memory_mode}, bytes);
    std::erase_if(t.alive, [](auto const& weak) { return weak.expired(); });
    t.alive.push_back(p);
    ++m.live.device_allocations;
    m.live.device_bytes += bytes;
    return t.physical.add(std::move(p));
}

std::shared_ptr<physical_memory> find_physical(CUmemGenericAllocationHandle handle) {
    return known().physical.find(at(handle));
}

CUresult unknown_handle() {
    bad_handle();
    return CUDA_ERROR_INVALID_VALUE;
}

// ---- mappings ----

allocation_ref mapping_at(std::uintptr_t address) {
    auto a = find_memory(at(address));
    return a && a->mapped ? a : nullptr;
}

/// Returns the mappings that fill the range exactly, or an empty list.
std::vector<allocation_ref> whole_mappings(std::uintptr_t start, std::size_t bytes) {
    std::vector<allocation_ref> all;
    std::size_t done = 0;
    while (done < bytes) {
        auto a = mapping_at(start + done);
        if (!a || a->address() != at(start + done) || a->bytes > bytes - done) return {};
        done += a->bytes;
        all.push_back(std::move(a));
    }
    return all;
}

bool any_mapping_in(std::uintptr_t start, std::size_t bytes) {
    auto const& memory = the_machine().memory;
    // The last that starts before the end of the range.
    auto const found = memory.lower_bound(~(start + bytes - 1));
    return found != memory.end() && found->second->mapped && ~found->first + found->second->bytes > start;
}

void add_mapping(std::uintptr_t start, std::size_t bytes, std::shared_ptr<physical_memory> p) {
    auto& m = the_machine();
    auto a = std::make_shared<allocation>();
    a->disguise = ~start;
    a->bytes = bytes;
    a->units = 0;  // the physical memory is charged
    a->kind = memory_kind::device;
    a->device = p->device;
    a->flags = 0;
    a->number = p->number;
    a->made_by = function::cuMemMap;
    a->made_at = here();
    if (auto& b = a->block; (b.checks = m.memory_mode) == memory_checks::strict) {
        b.shift = known().view + p->offset - static_cast<std::byte*>(at(start));
        closed_memory::watch_faults();
    }
    a->mapped = std::make_shared<mapping>();
    ++p->mappings;
    a->mapped->memory = std::move(p);
    m.memory.emplace(a->disguise, std::move(a));
}

void remove_mapping(allocation_ref const& a) {
    ordering::host_frees(*a, name_of(caller.calling));
    remember_freed(a);
    a->now = allocation::phase::released;  // work that uses it later is invalid
    sanitizer::claim(a->address(), a->bytes);
    the_machine().memory.erase(a->disguise);
    --a->mapped->memory->mappings;
    drop_if_unused(*a->mapped->memory);
}

void protect(allocation const& a) {
    if (a.block.shift != 0) return;  // inaccessible until a kernel uses it
    constexpr int rights[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE};
    mprotect(a.address(), a.bytes, rights[static_cast<int>(a.mapped->widest())]);
}

std::optional<access> access_of(CUmemAccess_flags flags) {
    switch (flags) {
        case CU_MEM_ACCESS_FLAGS_PROT_NONE: return access::none;
        case CU_MEM_ACCESS_FLAGS_PROT_READ: return access::read;
        case CU_MEM_ACCESS_FLAGS_PROT_READWRITE: return access::write;
        default: return std::nullopt;
    }
}

CUresult check(CUmemLocation const& where) {
    if (where.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
    auto const* const d = find_device(where.id);
    return d ? to_driver(failure_of(*d)) : CUDA_ERROR_INVALID_DEVICE;
}

CUresult check(CUmemAllocationProp const* wanted) {
    if (!wanted || wanted->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
    if (wanted->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE) return CUDA_ERROR_NOT_SUPPORTED;
    if (wanted->allocFlags.gpuDirectRDMACapable && !the_machine().maps_for_rdma)
        return CUDA_ERROR_NOT_SUPPORTED;
    return check(wanted->location);
}

CUresult check(CUmemAccessDesc const& wanted) {
    return access_of(wanted.flags) ? check(wanted.location) : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

access mapping::widest() const noexcept { return *std::max_element(of_device.begin(), of_device.end()); }

bool usable(allocation_ref const& first, void const* from, std::size_t bytes, access how) {
    auto const start = reinterpret_cast<std::uintptr_t>(from);
    if (!first) return !touches_a_reservation(start, bytes) && !closed_memory::is_closed(from);
    auto const offset = start - ~first->disguise;
    if (!first->mapped) return bytes <= first->bytes - offset;
    for (std::size_t done = 0; done < bytes;) {
        auto const a = mapping_at(start + done);
        if (!a || a->mapped->widest() < how) return false;
        done += a->bytes - (start + done - ~a->disguise);
    }
    return true;
}

bool is_reserved(void const* address) {
    return reservation_of(reinterpret_cast<std::uintptr_t>(address), 1) != 0;
}

std::vector<std::span<std::byte>> pieces(allocation_ref const& first, void const* from, std::size_t bytes) {
    auto const start = reinterpret_cast<std::uintptr_t>(from);
    if (!first) return {{static_cast<std::byte*>(const_cast<void*>(from)), bytes}};
    if (!first->mapped) return {{first->view(from), bytes}};
    std::vector<std::span<std::byte>> all;
    guard lock{the_machine().mutex};
    for (std::size_t done = 0; done < bytes;) {
        auto const a = mapping_at(start + done);
        if (!a) break;  // unmapped since the check: reported elsewhere
        auto const n = std::min(bytes - done, a->bytes - (start + done - ~a->disguise));
        all.emplace_back(a->view(at(start + done)), n);
        done += n;
    }
    return all;
}

void const* first_unmapped(void const* from, std::size_t bytes) {
    guard lock{the_machine().mutex};
    auto const start = reinterpret_cast<std::uintptr_t>(from);
    for (std::size_t done = 0; done < bytes;) {
        auto const a = mapping_at(start + done);
        if (!a) return at(start + done);
        done += a->bytes - (start + done - ~a->disguise);
    }
    return nullptr;
}

std::vector<std::pair<std::uint64_t, std::string>> describe_physical_memory() {
    std::vector<std::pair<std::uint64_t, std::string>> lines;
    for (auto const& weak : known().alive) {
        auto const p = weak.lock();
        if (!p || (p->handles == 0 && p->mappings == 0)) continue;
        lines.emplace_back(
            p->number, '#' + std::to_string(p->number) + " device memory, " + std::to_string(p->bytes) +
                           " bytes mapped " + std::to_string(p->mappings) + " times, device " +
                           std::to_string(p->device) + ", from cuMemCreate" + call_sites::mark(p->made_at));
    }
    return lines;
}

namespace {

std::string describe(std::uintptr_t start, reservation const& range) {
    std::ostringstream text;
    text << "addresses, " << range.bytes << " bytes at " << at(start) << range.made.text();
    return text.str();
}

}  // namespace

std::vector<std::string> describe_reservations() {
    std::vector<std::string> lines;
    for (auto const& [start, range] : known().reserved) lines.push_back(describe(start, range));
    return lines;
}

std::string reservation_at(void const* address) {
    auto const wanted = reinterpret_cast<std::uintptr_t>(address);
    auto const start = reservation_of(wanted, 1);
    if (start == 0) return {};
    return "byte " + std::to_string(wanted - start) + " of reserved " +
           describe(start, known().reserved[start]);
}

// ---- the driver's functions ----

namespace driver {

CUresult mem_get_allocation_granularity(std::size_t* out, CUmemAllocationProp const* wanted,
                                        CUmemAllocationGranularity_flags which) {
    return driver_api(function::cuMemGetAllocationGranularity, [&](guard&) {
        bool const named =
            which == CU_MEM_ALLOC_GRANULARITY_MINIMUM || which == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED;
        if (!out || !named) return CUDA_ERROR_INVALID_VALUE;
        if (auto const error = check(wanted); error != CUDA_SUCCESS) return error;
        *out = granularity;
        return CUDA_SUCCESS;
    });
}

CUresult mem_address_reserve(CUdeviceptr* out, std::size_t bytes, std::size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
    return driver_api(function::cuMemAddressReserve, [&](guard&) {
        bool const makes_sense = out && bytes != 0 && bytes % host_page == 0 && hint % host_page == 0 &&
                                 flags == 0 && (alignment == 0 || std::has_single_bit(alignment));
        if (!makes_sense) return CUDA_ERROR_INVALID_VALUE;
        auto const start = find_space(bytes, std::max(alignment, granularity), hint);
        if (start == 0) return CUDA_ERROR_OUT_OF_MEMORY;
        known().reserved.emplace(start, reservation{bytes, present_call()});
        ++the_machine().live.address_ranges;
        *out = start;
        return CUDA_SUCCESS;
    });
}

CUresult mem_address_free(CUdeviceptr start, std::size_t bytes) {
    return driver_api(function::cuMemAddressFree, [&](guard&) {
        auto& all = known().reserved;
        auto const found = all.find(start);
        if (found == all.end() || found->second.bytes != bytes || any_mapping_in(start, bytes))
            return CUDA_ERROR_INVALID_VALUE;
        all.erase(found);
        munmap(at(start), bytes);
        --the_machine().live.address_ranges;
        return CUDA_SUCCESS;
    });
}

CUresult mem_create(CUmemGenericAllocationHandle* out, std::size_t bytes, CUmemAllocationProp const* wanted,
                    unsigned long long flags) {
    return driver_api(function::cuMemCreate, [&](guard&) {
        if (!out || flags != 0 || !in_granules(bytes)) return CUDA_ERROR_INVALID_VALUE;
        if (auto const error = check(wanted); error != CUDA_SUCCESS) return error;
        auto& d = *find_device(wanted->location.id);
        if (too_large(bytes) || !take_from_device(d, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
        auto& t = known();
        auto const handle = add_physical(t, d, bytes, wanted->allocFlags.gpuDirectRDMACapable != 0);
        if (handle == 0) {
            give_to_device(d, bytes);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        *out = handle;
        return CUDA_SUCCESS;
    });
}

CUresult mem_release(CUmemGenericAllocationHandle handle) {
    return driver_api(function::cuMemRelease, [&](guard&) {
        auto const p = find_physical(handle);
        if (!p) return unknown_handle();
        if (--p->handles == 0) known().physical.remove(at(handle));
        drop_if_unused(*p);
        return CUDA_SUCCESS;
    });
}

CUresult mem_map(CUdeviceptr start, std::size_t bytes, std::size_t offset,
                 CUmemGenericAllocationHandle handle, unsigned long long flags) {
    return driver_api(function::cuMemMap, [&](guard&) {
        auto const p = find_physical(handle);
        if (!p) return unknown_handle();
        bool const fits =
            start % granularity == 0 && in_granules(bytes) && bytes <= p->bytes && offset == 0 && flags == 0;
        if (!fits || reservation_of(start, bytes) == 0 || any_mapping_in(start, bytes))
            return CUDA_ERROR_INVALID_VALUE;
        if (mmap(at(start), bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, known().file, p->offset) == MAP_FAILED)
            return CUDA_ERROR_OUT_OF_MEMORY;
        add_mapping(start, bytes, p);
        return CUDA_SUCCESS;
    });
}

// Does not wait: unmapping memory that queued work uses is an error of the program.
CUresult mem_unmap(CUdeviceptr start, std::size_t bytes) {
    return driver_api(function::cuMemUnmap, [&](guard&) {
        auto const all = whole_mappings(start, bytes);
        if (all.empty()) return CUDA_ERROR_INVALID_VALUE;
        for (auto const& a : all) remove_mapping(a);
        return map_nothing(at(start), bytes, MAP_FIXED) == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY
                                                                      : CUDA_SUCCESS;
    });
}

CUresult mem_set_access(CUdeviceptr start, std::size_t bytes, CUmemAccessDesc const* wanted,
                        std::size_t count) {
    return driver_api(function::cuMemSetAccess, [&](guard&) {
        auto const all = whole_mappings(start, bytes);
        if (all.empty() || !wanted || count == 0) return CUDA_ERROR_INVALID_VALUE;
        for (std::size_t i = 0; i < count; ++i)
            if (auto const error = check(wanted[i]); error != CUDA_SUCCESS) return error;
        for (auto const& a : all)
            for (std::size_t i = 0; i < count; ++i)
                if (wanted[i].location.id != a->device && !the_machine().has_peer_access)
                    return CUDA_ERROR_INVALID_DEVICE;
        for (auto const& a : all) {
            for (std::size_t i = 0; i < count; ++i)
                a->mapped->of_device[static_cast<std::size_t>(wanted[i].location.id)] =
                    *access_of(wanted[i].flags);
            protect(*a);
        }
        return CUDA_SUCCESS;
    });
}

CUresult mem_get_access(unsigned long long* out, CUmemLocation const* where, CUdeviceptr address) {
    return driver_api(function::cuMemGetAccess, [&](guard&) {
        constexpr CUmemAccess_flags flags[] = {CU_MEM_ACCESS_FLAGS_PROT_NONE, CU_MEM_ACCESS_FLAGS_PROT_READ,
                                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        auto const a = mapping_at(address);
        if (!out || !where || !a) return CUDA_ERROR_INVALID_VALUE;
        if (auto const error = check(*where); error != CUDA_SUCCESS) return error;
        *out = flags[static_cast<int>(a->mapped->of_device[static_cast<std::size_t>(where->id)])];
        return CUDA_SUCCESS;
    });
}

CUresult mem_retain_allocation_handle(CUmemGenericAllocationHandle* out, void* address) {
    return driver_api(function::cuMemRetainAllocationHandle, [&](guard&) {
        auto const a = mapping_at(reinterpret_cast<std::uintptr_t>(address));
        if (!out || !a) return CUDA_ERROR_INVALID_VALUE;
        auto const& p = a->mapped->memory;
        *out = p->handles == 0 ? known().physical.add(p) : known().physical.handle_of(p);
        ++p->handles;
        return CUDA_SUCCESS;
    });
}

CUresult mem_get_allocation_properties(CUmemAllocationProp* out, CUmemGenericAllocationHandle handle) {
    return driver_api(function::cuMemGetAllocationPropertiesFromHandle, [&](guard&) {
        auto const p = find_physical(handle);
        if (!p) return unknown_handle();
        if (!out) return CUDA_ERROR_INVALID_VALUE;
        *out = {};
        out->type = CU_MEM_ALLOCATION_TYPE_PINNED;
        out->location = {CU_MEM_LOCATION_TYPE_DEVICE, p->device};
        out->allocFlags.gpuDirectRDMACapable = p->is_for_rdma;
        return CUDA_SUCCESS;
    });
}

}  // namespace driver
}  // namespace cuota::inline v0::simulator
