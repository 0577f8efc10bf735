// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "closed_memory.hpp"
#include "virtual_memory.hpp"

#include <algorithm>
#include <csignal>
#include <list>

#include <fcntl.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

namespace cuota::inline v0::simulator::closed_memory {
namespace {

constexpr std::size_t alignment = 256;
constexpr std::size_t arena_bytes = std::size_t{1} << 38;  // of address space
constexpr std::size_t most_arenas = 64;

struct arena {
    std::uintptr_t first;  ///< in the program's view
    std::ptrdiff_t shift;
    int file;
    std::size_t next;  ///< first unused byte
};

/// The last page is unused.
struct extent {
    std::uintptr_t first;
    std::size_t bytes;
};

struct tables {
    std::mutex mutex;
    std::vector<arena> arenas;
    std::list<extent> given_back;                                ///< oldest first
    std::map<std::uintptr_t, std::list<extent>> lent;            ///< one each, by its first page
    std::map<std::uintptr_t, std::weak_ptr<allocation>> owners;  ///< by the same keys
};

tables& known() {
    static auto* const the_one = new tables;
    return *the_one;
}

std::atomic<bool> any_arena{false}, ever_watched{false};
thread_local constinit kernel_run* running = nullptr;

std::size_t in_pages(std::size_t bytes) { return (bytes + host_page - 1) / host_page * host_page; }
void* at(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

arena const* arena_of(std::uintptr_t address) {
    for (auto const& a : known().arenas)
        if (address - a.first < arena_bytes) return &a;
    return nullptr;
}

bool add_arena() {
    auto& t = known();
    if (t.arenas.size() == most_arenas) return false;
    int const file = memfd_create("simulated device memory", MFD_CLOEXEC);
    if (file < 0) return false;
    constexpr int shared = MAP_SHARED | MAP_NORESERVE;
    bool const grown = ftruncate(file, static_cast<off_t>(arena_bytes)) == 0;
    void* const closed = grown ? mmap(nullptr, arena_bytes, PROT_NONE, shared, file, 0) : MAP_FAILED;
    void* const open = closed != MAP_FAILED
                           ? mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, shared, file, 0)
                           : MAP_FAILED;
    if (open == MAP_FAILED) {
        if (closed != MAP_FAILED) munmap(closed, arena_bytes);
        close(file);
        return false;
    }
    madvise(open, arena_bytes, MADV_DONTDUMP);
    auto const shift = static_cast<std::byte*>(open) - static_cast<std::byte*>(closed);
    t.arenas.push_back({reinterpret_cast<std::uintptr_t>(closed), shift, file, host_page});
    any_arena = true;
    return true;
}

/// Reuses freed addresses if no unused ones are left, oldest first.
std::optional<extent> take_extent(std::size_t bytes) {
    auto& t = known();
    if (bytes > arena_bytes - host_page) return std::nullopt;
    if (t.arenas.empty() || t.arenas.back().next + bytes > arena_bytes) add_arena();
    if (!t.arenas.empty() && t.arenas.back().next + bytes <= arena_bytes) {
        auto& a = t.arenas.back();
        return extent{a.first + std::exchange(a.next, a.next + bytes), bytes};
    }
    auto const fits = [&](extent const& e) { return e.bytes >= bytes; };
    auto const found = std::find_if(t.given_back.begin(), t.given_back.end(), fits);
    if (found == t.given_back.end()) return std::nullopt;
    auto const result = *found;
    t.given_back.erase(found);
    return result;
}

void protect(allocation const& a, int rights) {
    auto const begin = reinterpret_cast<std::uintptr_t>(a.address()) - a.block.guard_before;
    mprotect(at(begin), in_pages(a.block.guard_before + a.bytes), rights);
}

allocation_ref owner_of(std::uintptr_t address) {
    auto& t = known();
    std::lock_guard lock{t.mutex};
    auto next = t.owners.upper_bound(address);
    if (next == t.owners.begin()) return nullptr;
    --next;
    return address - next->first < t.lent[next->first].front().bytes ? next->second.lock() : nullptr;
}

std::string where_in(allocation const& a, std::uintptr_t address) {
    auto const start = reinterpret_cast<std::uintptr_t>(a.address());
    if (address < start) return in_bytes(start - address) + " before ";
    if (address - start >= a.bytes) return in_bytes(address - start - a.bytes + 1) + " past the end of ";
    return "byte " + std::to_string(address - start) + " of ";
}

std::string describe_at(allocation const& a, std::uintptr_t address) {
    auto const start = reinterpret_cast<std::uintptr_t>(a.address());
    auto text = where_in(a, address) + (address < start ? describe(a) : describe(a, address - start));
    if (a.now == allocation::phase::pending) text += ", which is not allocated yet";
    // With a late schedule, the free may be called long before the release and the allocation.
    bool const given_up = a.freed_at != call_sites::site::unknown;
    if (given_up || a.now == allocation::phase::released) text += freed_text(a);
    return text;
}

std::uintptr_t away_from(allocation const& a, std::uintptr_t address) {
    auto const start = reinterpret_cast<std::uintptr_t>(a.address());
    if (address < start) return start - address;
    return address - start < a.bytes ? 0 : address - start - a.bytes + 1;
}

/// Returns the nearest first; only the nearest if its distance is at most the alignment.
std::vector<allocation_ref> blocks_around(std::uintptr_t address) {
    constexpr std::uintptr_t nearby = std::uintptr_t{256} << 10;
    auto& t = known();
    std::lock_guard lock{t.mutex};
    std::vector<allocation_ref> all;
    auto const next = t.owners.upper_bound(address);
    auto from = next;
    for (int i = 0; i < 2 && from != t.owners.begin(); ++i) --from;
    for (auto const end = next == t.owners.end() ? next : std::next(next); from != end; ++from)
        if (auto a = from->second.lock(); a && away_from(*a, address) < nearby) all.push_back(std::move(a));
    auto const nearer = [address](auto const& x, auto const& y) {
        return away_from(*x, address) < away_from(*y, address);
    };
    std::stable_sort(all.begin(), all.end(), nearer);
    if (!all.empty() && away_from(*all.front(), address) <= alignment) all.resize(1);
    return all;
}

}  // namespace

std::string what_lies_at(void const* where) {
    auto const address = reinterpret_cast<std::uintptr_t>(where);
    if (auto const a = find_memory(where)) return describe_at(*a, address);
    std::string text;
    auto const around = blocks_around(address);
    auto const freed = freed_memory_at(where);
    bool const known_block = !around.empty() && away_from(*around.front(), address) <= alignment;
    if (!known_block && !freed.empty()) return freed;
    // The program may have meant each of them.
    for (auto const& a : around) text += (text.empty() ? "" : ", and ") + describe_at(*a, address);
    if (auto const range = reservation_at(where); !range.empty())
        text += (text.empty() ? "" : ", in ") + range + ", where nothing is mapped";
    return text.empty() ? "an address that is not allocated" : text;
}

namespace {

call_sites::stack stack_of_fault(std::uintptr_t instruction) {
    call_sites::stack whole, result;
    call_sites::take(whole, true);
    auto const* const begin = whole.frames.data();
    auto const* const end = begin + whole.depth;
    auto const* from = std::find(begin, end, instruction);
    if (from != end) ++from;
    result.frames[result.depth++] = instruction + 1;  // like a return address
    for (; from < end && result.depth < result.most; ++from) result.frames[result.depth++] = *from;
    return result;
}

std::uintptr_t instruction_of(void* context) {
    auto const& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    return static_cast<std::uintptr_t>(machine.gregs[REG_RIP]);
#elif defined(__aarch64__)
    return machine.pc;
#else
#error "cuota: the simulated runtime does not support this processor"
#endif
}

struct sigaction previous;
std::mutex previous_mutex;

void pass_on(int signal, siginfo_t* info, void* context) {
    thread_local bool passing = false;
    struct sigaction before;
    {
        std::lock_guard lock{previous_mutex};
        before = previous;
    }
    bool const again = std::exchange(passing, true);  // the other handler raised it
    if (again || before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
        std::signal(signal, SIG_DFL);
        if (info->si_code <= 0) std::raise(signal);  // sent by a process; a fault repeats by itself
    } else if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(signal, info, context);
    } else {
        before.sa_handler(signal);
    }
    passing = false;
}

}  // namespace

struct fault_handler {
    enum class verdict { not_ours, go_on, kernel_fault, host_fault };

    static void handle(int signal, siginfo_t* info, void* context) {
        if (info->si_code <= 0) return pass_on(signal, info, context);
        std::string text;
        switch (judge(info->si_addr, instruction_of(context), text)) {
            case verdict::not_ours: return pass_on(signal, info, context);
            case verdict::go_on: return;
            case verdict::kernel_fault: std::longjmp(running->way_out, 1);
            case verdict::host_fault: end_host_access(text);
        }
    }

    static verdict judge(void const* where, std::uintptr_t instruction, std::string& text) {
        sanitizer::quiet quiet;
        guard lock{the_machine().mutex, std::defer_lock};
        for (int i = 0; !lock.try_lock(); ++i) {
            if (i == 2000) return verdict::not_ours;  // a fault inside of the simulator
            usleep(1000);
        }
        auto const address = reinterpret_cast<std::uintptr_t>(where);
        if (!is_closed(where) && !is_reserved(where)) return verdict::not_ours;
        auto a = owner_of(address);
        if (!a) a = find_memory(where);
        bool const inside = a && address - reinterpret_cast<std::uintptr_t>(a->address()) < a->bytes;
        bool const live = a && a->now == allocation::phase::live;
        bool const reaches = running && live && inside && kernel_access(running->owner_, *a) != access::none;
        bool const only_reads = reaches && a->mapped && a->mapped->widest() == access::read;
        if (reaches && !(only_reads && has_opened(a))) {
            open(a, only_reads ? PROT_READ : PROT_READ | PROT_WRITE);
            return verdict::go_on;
        }
        auto const by = call_sites::mark(call_sites::of(stack_of_fault(instruction)));
        if (!running) {
            text = call_sites::resolved(
                std::string{caller.doing == activity::callback ? "a host function" : "host code"} + by +
                " accesses " + what_lies_at(where));
            note_misuse(the_machine().misuse.host_accesses, text);
            return verdict::host_fault;
        }
        auto& fault = running->fault;  // not a local: the jump skips destructors
        fault = "kernel " + running->name_ + call_sites::mark(running->from_) + " accesses" + by + ' ' +
                what_lies_at(where);
        if (only_reads) fault += ", which is read-only";
        else if (live && inside)
            fault += ", which device " + std::to_string(running->owner_.index) + " cannot reach";
        fault = call_sites::resolved(std::move(fault));
        auto& wrong = the_machine().misuse;
        note_misuse(live && !inside ? wrong.out_of_bounds : wrong.illegal_accesses, fault);
        return verdict::kernel_fault;
    }

    static bool has_opened(allocation_ref const& a) {
        auto const& mine = running->opened_;
        return std::find(mine.begin(), mine.end(), a) != mine.end();
    }

    static void open(allocation_ref const& a, int rights) {
        if (!has_opened(a)) {
            running->opened_.push_back(a);
            ++a->open;
        }
        protect(*a, rights);
    }

    static void end_host_access(std::string const& text) {
        if (the_machine().on_host_access == host_access::throw_exception) throw host_access_error{text};
        std::fprintf(stderr, "cuota simulator: %s\n", text.c_str());
        std::fflush(stderr);
        std::abort();
    }
};

void* take(backing& out, std::size_t bytes) {
    if (bytes > arena_bytes / 2) return nullptr;
    std::lock_guard lock{known().mutex};
    auto const aligned = (bytes + alignment - 1) / alignment * alignment;
    auto const pages = in_pages(aligned);
    auto const lent = take_extent(pages + host_page);
    if (!lent) return nullptr;
    known().lent[lent->first].assign(1, *lent);
    auto const address = lent->first + pages - aligned;
    out.checks = memory_checks::strict;
    out.shift = arena_of(address)->shift;
    out.guard_before = address - lent->first;
    out.guard_behind = aligned - bytes;
    auto const guard_at = [&](std::uintptr_t from, std::size_t n) {
        poison(static_cast<std::byte*>(at(from)) + out.shift, n);
    };
    guard_at(lent->first, out.guard_before);
    guard_at(address + bytes, out.guard_behind);
    watch_faults();
    return at(address);
}

void give(void* address, backing const& b, std::size_t) {
    auto& t = known();
    std::lock_guard lock{t.mutex};
    auto const first = reinterpret_cast<std::uintptr_t>(address) - b.guard_before;
    auto const lent = t.lent.find(first);
    auto const& in = *arena_of(first);
    auto const bytes = lent->second.front().bytes;
    mprotect(at(first), bytes, PROT_NONE);  // an unordered kernel may have it open
    // Releases the host's memory too; on failure, that happens at exit.
    (void)fallocate(in.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(first - in.first),
                    static_cast<off_t>(bytes));
    t.given_back.splice(t.given_back.end(), lent->second);  // allocates no memory: a free cannot fail
    t.owners.erase(first);
    t.lent.erase(lent);
}

void belongs_to(allocation_ref const& a) {
    std::lock_guard lock{known().mutex};
    known().owners[reinterpret_cast<std::uintptr_t>(a->address()) - a->block.guard_before] = a;
}

bool in_use() noexcept { return ever_watched; }

bool is_closed(void const* address) noexcept {
    if (!any_arena) return false;
    std::lock_guard lock{known().mutex};
    return arena_of(reinterpret_cast<std::uintptr_t>(address)) != nullptr;
}

void watch_faults() noexcept {
    ever_watched = true;
    struct sigaction now;
    std::lock_guard lock{previous_mutex};
    if (sigaction(SIGSEGV, nullptr, &now) != 0 || now.sa_sigaction == &fault_handler::handle) return;
    previous = now;
    struct sigaction ours {};
    ours.sa_sigaction = &fault_handler::handle;
    ours.sa_flags = SA_SIGINFO | SA_NODEFER;  // the handler may leave by a jump or an exception
    sigaction(SIGSEGV, &ours, nullptr);
}

kernel_run::kernel_run(device const& d, std::string const& name, call_sites::site from) noexcept
    : owner_{d}, name_{name}, from_{from}, outer_{std::exchange(running, this)} {
    watch_faults();
}

kernel_run::~kernel_run() {
    running = outer_;
    if (opened_.empty()) return;
    guard lock{the_machine().mutex};
    for (auto const& a : opened_) {
        if (--a->open == 0) protect(*a, PROT_NONE);
        if (a->now != allocation::phase::live) continue;
        if (auto const where = broken_guard(*a)) {
            auto const address =
                reinterpret_cast<std::uintptr_t>(a->address()) + static_cast<std::size_t>(*where);
            note_misuse(the_machine().misuse.out_of_bounds, "kernel " + name_ + call_sites::mark(from_) +
                                                                " wrote " + where_in(*a, address) +
                                                                describe(*a));
        }
    }
}

}  // namespace cuota::inline v0::simulator::closed_memory
