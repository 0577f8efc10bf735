// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#include "call_site.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string_view>
#include <utility>

#include <dlfcn.h>
#include <elf.h>

#include <fcntl.h>
#include <link.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <unwind.h>

extern "C" {
[[gnu::visibility("hidden")]] extern char const __ehdr_start[];  // start of this library
[[gnu::visibility("hidden")]] extern char const etext[];         // end of its code
extern char** environ;
}

namespace cuota::inline v0::simulator::call_sites {
namespace {

constexpr std::uint64_t kept = std::uint64_t{1} << 63;  // the rest is an index
constexpr std::uint64_t told = std::uint64_t{1} << 62;  // the rest is a pointer and a line
constexpr int line_bits = 14;                           // leaves 48 for an address
constexpr unsigned most_line = (1u << line_bits) - 1;
constexpr std::size_t most_shown = 3;

bool is_ours(std::uintptr_t address) {
    return address - reinterpret_cast<std::uintptr_t>(__ehdr_start) <
           static_cast<std::uintptr_t>(etext - __ehdr_start);
}

/// Cheap because this library is compiled with frame pointers. Without them (by hand, if the flag is missing) it returns 0 or another
/// address, and reads only this thread's stack.
[[gnu::noinline]] std::uintptr_t first_caller() noexcept {
    struct frame {
        frame const* outer;
        std::uintptr_t returns_to;
    };
    constexpr std::uintptr_t largest_frame = std::uintptr_t{1} << 16;
    auto const* f = static_cast<frame const*>(__builtin_frame_address(0));
    for (int i = 0; i < 16; ++i) {
        if (!is_ours(f->returns_to)) return f->returns_to;
        auto const step = reinterpret_cast<std::uintptr_t>(f->outer) - reinterpret_cast<std::uintptr_t>(f);
        if (step == 0 || step > largest_frame || step % alignof(frame) != 0) return 0;
        f = f->outer;
    }
    return 0;
}

_Unwind_Reason_Code note_frame(_Unwind_Context* context, void* data) {
    auto& out = *static_cast<stack*>(data);
    auto const address = _Unwind_GetIP(context);
    // The simulator called the kernel.
    if (is_ours(address)) return out.depth == 0 ? _URC_NO_REASON : _URC_END_OF_STACK;
    if (address == 0 || out.depth == stack::most) return _URC_END_OF_STACK;
    out.frames[out.depth++] = address;
    return _URC_NO_REASON;
}

// ---- stored stacks ----

struct tables {
    std::mutex mutex;
    std::map<std::vector<std::uintptr_t>, std::uintptr_t> numbers;
    std::vector<std::vector<std::uintptr_t> const*> stacks;
    std::map<std::uintptr_t, std::vector<std::string>> lines;  ///< by address: "file:line", inlined first
};

tables& known() {
    static auto* const the_one = new tables;
    return *the_one;
}

bool is_told(site s) { return (static_cast<std::uint64_t>(s) & (kept | told)) == told; }

std::vector<std::uintptr_t> frames_of(site s) {
    auto const value = static_cast<std::uint64_t>(s);
    if (is_told(s)) return {};
    return value & kept ? *known().stacks[value & ~kept] : std::vector{value};
}

struct module {
    std::string file;
    std::uintptr_t base = 0;  ///< to be subtracted from an address
};

module module_of(std::uintptr_t address) {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(address), &info) == 0 || !info.dli_fname) return {};
    auto const* const header = static_cast<ElfW(Ehdr) const*>(info.dli_fbase);
    auto const base = header->e_type == ET_EXEC ? 0 : reinterpret_cast<std::uintptr_t>(info.dli_fbase);
    // The main program's name need not be a path from here.
    std::string file = info.dli_fname;
    if (access(file.c_str(), R_OK) != 0) file = "/proc/self/exe";
    if (file == "/proc/self/exe") {
        char path[4096];
        auto const n = readlink(file.c_str(), path, sizeof path - 1);
        if (n > 0) file.assign(path, static_cast<std::size_t>(n));
    }
    return {file, base};
}

std::string hex(std::uintptr_t value) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
    return text;
}

std::string output_of(std::vector<std::string> const& words) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return {};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    std::vector<char*> arguments;
    for (auto const& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    // It may name this library.
    std::vector<char*> variables;
    for (auto* const* v = environ; *v; ++v)
        if (std::strncmp(*v, "LD_PRELOAD=", 11) != 0) variables.push_back(*v);
    variables.push_back(nullptr);
    pid_t child = 0;
    bool const started =
        posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), variables.data()) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    std::string text;
    char block[4096];
    for (ssize_t n; started && (n = read(ends[0], block, sizeof block)) != 0;) {
        if (n > 0) text.append(block, static_cast<std::size_t>(n));
        else if (errno != EINTR) break;
    }
    close(ends[0]);
    if (started)
        while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
    return text;
}

bool is_of_the_system(module const& m) {
    auto const name = m.file.substr(m.file.rfind('/') + 1);
    for (char const* const known : {"libc.so", "libc-", "libstdc++.so", "libm.so", "ld-linux"})
        if (name.starts_with(known)) return true;
    return false;
}

/// Runs llvm-addr2line, or addr2line if llvm-addr2line is not installed. addr2line takes seconds for a large program that clang compiled, because
/// clang writes no table of addresses for it.
std::string output_of_addr2line(std::vector<std::string> words) {
    words.emplace(words.begin());
    for (char const* const program : {"llvm-addr2line", "addr2line"}) {
        words.front() = program;
        if (auto text = output_of(words); !text.empty()) return text;
    }
    return {};
}

/// A return address is one past its call.
void look_up(module const& in, std::vector<std::uintptr_t> const& addresses) {
    std::vector<std::string> words{"-a", "-i", "-e", in.file};
    std::map<std::uintptr_t, std::uintptr_t> by_offset;
    for (auto const address : addresses) {
        auto const offset = address - 1 - in.base;
        words.push_back(hex(offset));
        by_offset[offset] = address;
        known().lines[address];
    }
    auto const text = is_of_the_system(in) ? std::string{} : output_of_addr2line(std::move(words));
    std::vector<std::string>* current = nullptr;
    for (std::size_t from = 0; from < text.size();) {
        auto const end = std::min(text.find('\n', from), text.size());
        std::string_view line{text.data() + from, end - from};
        from = end + 1;
        if (line.starts_with("0x")) {
            std::uintptr_t offset = 0;
            std::from_chars(line.data() + 2, line.data() + line.size(), offset, 16);
            auto const found = by_offset.find(offset);
            current = found == by_offset.end() ? nullptr : &known().lines[found->second];
        } else if (current && !line.starts_with('?')) {
            if (auto const note = line.find(" (discriminator"); note != line.npos)
                line = line.substr(0, note);
            if (!line.ends_with(":?") && !line.ends_with(":0")) current->emplace_back(line);
        }
    }
    for (auto const address : addresses)
        if (auto& lines = known().lines[address]; lines.empty()) {
            auto const slash = in.file.rfind('/') + 1;  // npos + 1 is 0
            if (!in.file.empty()) lines.push_back(in.file.substr(slash) + '+' + hex(address - 1 - in.base));
        }
}

void look_up_all(std::set<std::uintptr_t> const& wanted) {
    std::map<std::string, std::pair<module, std::vector<std::uintptr_t>>> by_module;
    for (auto const address : wanted) {
        if (known().lines.count(address)) continue;
        auto m = module_of(address);
        auto& entry = by_module[m.file];
        entry.first = std::move(m);
        entry.second.push_back(address);
    }
    for (auto const& [file, entry] : by_module) look_up(entry.first, entry.second);
}

bool passes_on(std::string_view line) {
    for (char const* const folder : {"core", "runtime", "resource", "guard", "pool", "buffer", "data"})
        if (line.find(std::string{"/include/cuota/"} + folder + '/') != line.npos) return true;
    if (line.find(".S:") != line.npos) return true;  // such as memcpy
    return line.find("/include/c++/") != line.npos || line.find("/cccl/") != line.npos ||
           line.starts_with("/usr/include/");
}

bool is_a_line(std::string_view text) { return text.find(':') != text.npos; }

std::string text_of(site s) {
    if (is_told(s)) {
        auto const value = static_cast<std::uint64_t>(s) & ~told;
        std::string_view file = reinterpret_cast<char const*>(value >> line_bits);
        return std::string{file.substr(file.rfind('/') + 1)} + ':' + std::to_string(value & most_line);
    }
    std::string text, anything;
    std::size_t shown = 0;
    for (auto const frame : frames_of(s))
        for (auto const& line : known().lines[frame]) {
            auto const name = line.substr(line.rfind('/') + 1);
            if (anything.empty()) anything = name;
            if (!is_a_line(line) || passes_on(line)) continue;
            if (shown++ != 0) text += " < ";
            text += name;
            if (shown == most_shown) return text;
        }
    return text.empty() ? anything : text;
}

// ---- placeholders: \1 number \2 ----

constexpr char opens = '\1', closes = '\2';

template <class Use>
void for_each_mark(std::string const& text, Use use) {
    for (auto from = text.find(opens); from != text.npos; from = text.find(opens, from + 1)) {
        auto const to = text.find(closes, from);
        std::uint64_t value = 0;
        std::from_chars(text.data() + from + 1, text.data() + to, value, 16);
        use(from, to, static_cast<site>(value));
    }
}

std::string replace_marks(std::string const& text) {
    std::string out;
    std::size_t done = 0;
    for_each_mark(text, [&](std::size_t from, std::size_t to, site s) {
        out.append(text, done, from - done);
        done = to + 1;
        if (auto const where = text_of(s); !where.empty()) out += " at " + where;
    });
    return out.append(text, done, text.npos);
}

}  // namespace

void take(stack& out, bool deep) noexcept {
    out.depth = 0;
    if (deep) _Unwind_Backtrace(note_frame, &out);
    if (out.depth != 0) return;
    out.frames[0] = first_caller();
    out.depth = out.frames[0] != 0;
}

site of(char const* file, unsigned line) {
    auto const pointer = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(file));
    return static_cast<site>(told | pointer << line_bits | std::min(line, most_line));
}

site of(stack const& s) noexcept {
    if (s.file) return of(s.file, s.line);
    if (s.depth == 0) return site::unknown;
    if (s.depth == 1) return static_cast<site>(s.frames[0]);
    try {
        auto& t = known();
        std::lock_guard const lock{t.mutex};
        if (t.stacks.size() == t.stacks.capacity()) t.stacks.reserve(2 * t.stacks.size() + 1);
        auto const [entry, is_new] =
            t.numbers.try_emplace({s.frames.begin(), s.frames.begin() + s.depth}, t.stacks.size());
        if (is_new) t.stacks.push_back(&entry->first);
        return static_cast<site>(entry->second | kept);
    } catch (std::bad_alloc const&) {
        return static_cast<site>(s.frames[0]);  // out of memory: a free must not fail
    }
}

std::string mark(site s) {
    if (s == site::unknown) return {};
    return opens + hex(static_cast<std::uintptr_t>(s)).substr(2) + closes;
}

void resolve(std::vector<std::string>& texts) {
    std::lock_guard lock{known().mutex};
    std::set<std::uintptr_t> wanted;
    for (auto const& text : texts)
        for_each_mark(text, [&](std::size_t, std::size_t, site s) {
            for (auto const frame : frames_of(s)) wanted.insert(frame);
        });
    if (!wanted.empty()) look_up_all(wanted);
    for (auto& text : texts) text = replace_marks(text);
}

std::string resolved(std::string text) {
    std::vector<std::string> one{std::move(text)};
    resolve(one);
    return std::move(one.front());
}

}  // namespace cuota::inline v0::simulator::call_sites
