// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// NVIDIA's management library (NVML): other processes on a device.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/detail/std_minimal.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/memory_limits.hpp>
#include <cuota/runtime/rt/call.hpp>

namespace cuota::inline v0 {

/// A value, or the reason why it is unknown.
/// Example: tests/runtime/nvml.sim.cpp
template <class T>
class nvml_result {
public:
    nvml_result(T value) : value_{std::move(value)} {}  ///< a known value
    /// Makes a result without a value; `why` is not empty.
    [[nodiscard]] static nvml_result unknown(std::string why) {
        nvml_result answer;
        answer.reason_ = std::move(why);
        return answer;
    }

    /// If false, error() returns the reason.
    [[nodiscard]] bool has_value() const noexcept { return value_.has_value(); }
    explicit operator bool() const noexcept { return has_value(); }  ///< same as has_value
    /// Requires has_value().
    [[nodiscard]] T const& operator*() const noexcept { return *value_; }
    /// Requires has_value().
    [[nodiscard]] T const* operator->() const noexcept { return &*value_; }
    /// Returns the reason, or "".
    [[nodiscard]] std::string const& error() const noexcept { return reason_; }

private:
    nvml_result() = default;
    std::optional<T> value_;
    std::string reason_;
};

/// A process that uses a device. Example: tests/runtime/nvml.sim.cpp
struct nvml_process {
    unsigned pid = 0;                  ///< the host's, also in a container
    std::optional<std::size_t> bytes;  ///< nullopt if the driver does not report it
    std::string name{};                ///< from /proc, at most 15 bytes; empty if not visible
    bool is_current = false;           ///< is the calling process
};

/// A device's memory in bytes, for all programs. Example: tests/runtime/nvml.sim.cpp
struct nvml_memory {
    std::size_t total = 0;  ///< capacity
    std::size_t free = 0;   ///< not in use
    std::size_t used = 0;   ///< includes the driver's own
};

/// Returns the PCI address "00000000:3b:00.0", by which NVML identifies devices; a MIG instance has the whole device's. Throws: cuda_error.
[[nodiscard]] std::string pci_bus_id(device d);

namespace detail {

// More of NVML's ABI, the same since driver 450.
namespace nvml_abi {

inline constexpr result insufficient_size = 7;
inline constexpr unsigned long long not_available = ~0ULL;

struct memory {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
};
struct process {
    unsigned pid;
    unsigned long long bytes;
    unsigned gpu_instance;
    unsigned compute_instance;
};
static_assert(sizeof(memory) == 24 && sizeof(process) == 24);

using error_call = char const*(result);
using text_call = result(char*, unsigned);
using memory_call = result(handle, memory*);
using processes_call = result(handle, unsigned*, process*);

}  // namespace nvml_abi

[[nodiscard]] std::string process_name(unsigned pid);

}  // namespace detail

/// NVML, loaded at run time: nothing is linked.
///
/// Threads: any. Throws: std::bad_alloc. A query that fails, without NVML, or in a forked child of the process that opened it has no value.
/// Cost: tens of microseconds to milliseconds per query.
/// Example: tests/runtime/nvml.sim.cpp
class nvml {
public:
    /// Returns a function by name, or null.
    using find_symbol = std::function<void*(char const* name)>;

    /// Returns the machine's NVML; unavailable if simulated.
    [[nodiscard]] static nvml const& system();
    /// Loads a library by name or path.
    explicit nvml(char const* library = "libnvidia-ml.so.1");
    /// Uses functions found by `find`.
    explicit nvml(find_symbol const& find);

    nvml(nvml const&) = delete;  // NVML counts initializations
    nvml& operator=(nvml const&) = delete;
    ~nvml();

    [[nodiscard]] bool is_available() const noexcept { return reason_.empty(); }  ///< loaded and initialized
    /// Returns why NVML is unavailable, or "".
    [[nodiscard]] std::string const& error() const noexcept { return reason_; }

    /// Returns for example "580.65.06".
    [[nodiscard]] nvml_result<std::string> driver_version() const;
    /// Returns the memory of the device at a PCI address.
    [[nodiscard]] nvml_result<nvml_memory> memory(std::string const& pci) const;
    /// Returns the compute and graphics processes of the device at a PCI address, most bytes first, unknown sizes last. In a container the
    /// pids are the host's, so names and is_current may be wrong.
    [[nodiscard]] nvml_result<std::vector<nvml_process>> processes(std::string const& pci) const;

private:
    nvml(find_symbol const&, std::string why_not);

    void start(find_symbol const& find);
    template <class Call>
    [[nodiscard]] static Call* as(void* symbol) noexcept {
        return reinterpret_cast<Call*>(symbol);
    }
    // The unversioned function has another layout.
    [[nodiscard]] static detail::nvml_abi::processes_call* newest(find_symbol const& find,
                                                                  std::string const& name);
    [[nodiscard]] std::string words(char const* name, detail::nvml_abi::result code) const;
    // Returns why a call failed, or "".
    template <class Call, class Ask>
    [[nodiscard]] std::string asked(char const* name, Call* call, Ask ask) const {
        if (!is_available()) return reason_;
        if (made_.is_of_parent()) return "NVML was loaded before fork(), by the parent process";
        if (!call) return std::string{"the library has no "} + name;
        detail::nvml_abi::result const code = ask(call);
        return code == detail::nvml_abi::success ? "" : words(name, code);
    }
    [[nodiscard]] std::string found(std::string const& pci, detail::nvml_abi::handle& device) const;
    // A process in both lists has its total bytes in each.
    [[nodiscard]] std::string list(char const* name, detail::nvml_abi::processes_call* call,
                                   detail::nvml_abi::handle device, std::vector<nvml_process>& all) const;
    static void add(detail::nvml_abi::process const& p, std::vector<nvml_process>& all);

    detail::process_mark const made_;
    void* library_ = nullptr;
    std::string reason_;
    detail::nvml_abi::init_call* shutdown_ = nullptr;
    detail::nvml_abi::error_call* error_ = nullptr;
    detail::nvml_abi::text_call* driver_version_ = nullptr;
    detail::nvml_abi::find_call* find_ = nullptr;
    detail::nvml_abi::memory_call* memory_ = nullptr;
    detail::nvml_abi::processes_call* compute_ = nullptr;
    detail::nvml_abi::processes_call* graphics_ = nullptr;
};

}  // namespace cuota::inline v0

#if CUOTA_DEFINE_MEMORY

#include <algorithm>
#include <fstream>

#include <dlfcn.h>
#include <unistd.h>

#include <cuota/core/detail/stable_sort.hpp>

namespace cuota::inline v0 {

CUOTA_INLINE std::string pci_bus_id(device d) {
    cudaDeviceProp properties{};
    rt::check(cudaGetDeviceProperties(&properties, d.ordinal()), "cudaGetDeviceProperties");
    return rt::pci_text(properties);
}

}  // namespace cuota::inline v0

namespace cuota::inline v0::detail {

CUOTA_INLINE std::string process_name(unsigned pid) {
    std::ifstream file{"/proc/" + std::to_string(pid) + "/comm"};
    std::string name;
    std::getline(file, name);
    return name;
}

}  // namespace cuota::inline v0::detail

namespace cuota::inline v0 {

CUOTA_INLINE nvml::nvml(find_symbol const& find) { start(find); }

CUOTA_INLINE nvml::nvml(find_symbol const&, std::string why_not) : reason_{std::move(why_not)} {}

CUOTA_INLINE nvml const& nvml::system() {
    static nvml const& one =  // never destroyed: reports during exit use it
        *(is_simulated() ? new nvml{find_symbol{}, "the device is simulated"} : new nvml);
    return one;
}

CUOTA_INLINE nvml::nvml(char const* library) : library_{::dlopen(library, RTLD_LAZY | RTLD_LOCAL)} {
    if (!library_) {
        char const* const why = ::dlerror();
        reason_ = why ? why : std::string{library} + " cannot be opened";
        return;
    }
    try {
        start([this](char const* name) { return ::dlsym(library_, name); });
    } catch (...) {
        ::dlclose(library_);
        throw;
    }
}

CUOTA_INLINE nvml::~nvml() {
    if (made_.is_of_parent()) return;  // other threads may have held NVML's locks at the fork
    if (is_available() && shutdown_) (void)shutdown_();
    if (library_) ::dlclose(library_);
}

CUOTA_INLINE nvml_result<std::string> nvml::driver_version() const {
    char text[96] = "";
    std::string why = asked("nvmlSystemGetDriverVersion", driver_version_,
                            [&](auto* call) { return call(text, sizeof text); });
    if (!why.empty()) return nvml_result<std::string>::unknown(std::move(why));
    text[sizeof text - 1] = '\0';
    return std::string{text};
}

CUOTA_INLINE nvml_result<nvml_memory> nvml::memory(std::string const& pci) const {
    detail::nvml_abi::handle device = nullptr;
    std::string why = found(pci, device);
    detail::nvml_abi::memory m{};
    if (why.empty())
        why = asked("nvmlDeviceGetMemoryInfo", memory_, [&](auto* call) { return call(device, &m); });
    if (!why.empty()) return nvml_result<nvml_memory>::unknown(std::move(why));
    return nvml_memory{m.total, m.free, m.used};
}

CUOTA_INLINE nvml_result<std::vector<nvml_process>> nvml::processes(std::string const& pci) const {
    using answer = nvml_result<std::vector<nvml_process>>;
    detail::nvml_abi::handle device = nullptr;
    std::string why = found(pci, device);
    std::vector<nvml_process> all;
    if (why.empty()) why = list("nvmlDeviceGetComputeRunningProcesses", compute_, device, all);
    if (!why.empty()) return answer::unknown(std::move(why));
    (void)list("nvmlDeviceGetGraphicsRunningProcesses", graphics_, device, all);  // optional
    for (nvml_process& p : all) {
        p.name = detail::process_name(p.pid);
        p.is_current = p.pid == static_cast<unsigned>(::getpid());
    }
    detail::sort_stably(all, std::ranges::greater{}, [](nvml_process const& p) { return p.bytes; });
    return all;
}

CUOTA_INLINE void nvml::start(find_symbol const& find) {
    using namespace detail::nvml_abi;
    auto* const init = as<init_call>(find("nvmlInit_v2"));
    if (!init) {
        reason_ = "the library has no nvmlInit_v2";
        return;
    }
    shutdown_ = as<init_call>(find("nvmlShutdown"));
    error_ = as<error_call>(find("nvmlErrorString"));
    driver_version_ = as<text_call>(find("nvmlSystemGetDriverVersion"));
    find_ = as<find_call>(find("nvmlDeviceGetHandleByPciBusId_v2"));
    memory_ = as<memory_call>(find("nvmlDeviceGetMemoryInfo"));
    compute_ = newest(find, "nvmlDeviceGetComputeRunningProcesses");
    graphics_ = newest(find, "nvmlDeviceGetGraphicsRunningProcesses");
    if (result const code = init(); code != success) reason_ = words("nvmlInit_v2", code);
}

CUOTA_INLINE detail::nvml_abi::processes_call* nvml::newest(find_symbol const& find,
                                                            std::string const& name) {
    auto* const third = find((name + "_v3").c_str());
    return as<detail::nvml_abi::processes_call>(third ? third : find((name + "_v2").c_str()));
}

CUOTA_INLINE std::string nvml::words(char const* name, detail::nvml_abi::result code) const {
    char const* const text = error_ ? error_(code) : nullptr;
    return detail::message("{} failed: {}", {name, text ? text : "error " + std::to_string(code)});
}

CUOTA_INLINE std::string nvml::found(std::string const& pci, detail::nvml_abi::handle& device) const {
    return asked("nvmlDeviceGetHandleByPciBusId_v2", find_,
                 [&](auto* call) { return call(pci.c_str(), &device); });
}

CUOTA_INLINE std::string nvml::list(char const* name, detail::nvml_abi::processes_call* call,
                                    detail::nvml_abi::handle device, std::vector<nvml_process>& all) const {
    using namespace detail::nvml_abi;
    std::vector<process> found;
    std::string why = asked(name, call, [&](auto* ask) {
        result code = insufficient_size;
        unsigned count = 0;
        // The number may grow meanwhile.
        for (int tries = 0; tries != 8 && code == insufficient_size; ++tries) {
            found.resize(tries == 0 ? 0 : std::size_t{count} + 8);
            count = static_cast<unsigned>(found.size());
            code = ask(device, &count, found.empty() ? nullptr : found.data());
        }
        found.resize(code == success ? std::min(std::size_t{count}, found.size()) : 0);
        return code;
    });
    for (process const& p : found) add(p, all);
    return why;
}

CUOTA_INLINE void nvml::add(detail::nvml_abi::process const& p, std::vector<nvml_process>& all) {
    auto const bytes =
        p.bytes == detail::nvml_abi::not_available ? std::nullopt : std::optional<std::size_t>{p.bytes};
    auto const same = std::ranges::find(all, p.pid, [](nvml_process const& known) { return known.pid; });
    if (same == all.end()) all.push_back({p.pid, bytes, {}, false});
    else same->bytes = std::max(same->bytes, bytes);
}

}  // namespace cuota::inline v0

#endif
