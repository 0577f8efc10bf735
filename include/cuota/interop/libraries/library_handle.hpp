// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Handles of NVIDIA's libraries with workspaces from a memory resource.
#pragma once

#include <concepts>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/buffer/lease.hpp>
#include <cuota/core/config.hpp>
#include <cuota/core/detail/process.hpp>
#include <cuota/core/element_count.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/core/label.hpp>
#include <cuota/resource/any_resource.hpp>
#include <cuota/resource/detail/idle_memory.hpp>
#include <cuota/resource/resource.hpp>
#include <cuota/runtime/device.hpp>
#include <cuota/runtime/rt/call.hpp>
#include <cuota/runtime/stream.hpp>

namespace cuota::inline v0 {

/// A call of a library failed.
/// Example: tests/interop/libraries/library_handle.sim.cpp
class CUOTA_PROCESS_TYPE library_error : public std::runtime_error {
public:
    /// `call` is the library's function, `why` its text for the status.
    library_error(int status, bool is_out_of_memory, std::string const& call, std::string const& why,
                  source_location where = {})
        : std::runtime_error{"cuota::library_error: " + call + " failed: " + why +
                             detail::location_suffix(where)},
          status_{status},
          is_out_of_memory_{is_out_of_memory},
          call_{std::make_shared<std::string const>(call)} {}

    [[nodiscard]] int status() const noexcept { return status_; }  ///< the library's own number
    /// Returns whether the library could not allocate memory.
    [[nodiscard]] bool is_out_of_memory() const noexcept { return is_out_of_memory_; }
    [[nodiscard]] std::string const& call() const noexcept { return *call_; }  ///< name of the function

private:
    int status_;
    bool is_out_of_memory_;
    std::shared_ptr<std::string const> call_;
};

/// A library for library_handle. Its functions return the library's status, of which 0 is success:
///
///     native         type of its handle
///     prefix         first part of its functions' names, such as "cublas"
///     name           tag of its workspaces
///     own_bytes      device memory that the library itself allocates for a handle
///     lacks_memory   whether a status says that an allocation failed
///     may_lack_memory   whether the creation of a handle also returns a status for other reasons than a lack of memory
///     text_of        text for a status
template <class L>
concept handle_library = requires(typename L::native h, typename L::native& made, cudaStream_t s,
                                  int status) {
    { L::prefix() } -> std::same_as<std::string>;
    { L::name() } -> std::same_as<tag>;
    { L::own_bytes() } -> std::same_as<std::size_t>;
    { L::create(made) } -> std::same_as<int>;
    { L::destroy(h) } -> std::same_as<int>;
    { L::set_stream(h, s) } -> std::same_as<int>;
    { L::lacks_memory(status) } -> std::same_as<bool>;
    { L::may_lack_memory(status) } -> std::same_as<bool>;
    { L::text_of(status) } -> std::same_as<std::string>;
};

/// A library that gets its workspace by the handle, not as an argument of each operation:
///
///     usual_workspace    bytes of a handle's workspace on a device
///     set_workspace      sets the workspace for later operations
///     forget_workspace   ends its use
///     set_workspace_name, forget_workspace_name   the functions that the last two call
template <class L>
concept workspace_library = handle_library<L> &&
    requires(typename L::native h, cudaStream_t s, void* p, std::size_t bytes, device where) {
    { L::usual_workspace(where) } -> std::same_as<std::size_t>;
    { L::set_workspace(h, p, bytes) } -> std::same_as<int>;
    { L::forget_workspace(h, s) } -> std::same_as<int>;
    { L::set_workspace_name() } -> std::same_as<std::string>;
    { L::forget_workspace_name() } -> std::same_as<std::string>;
};

namespace detail {

/// Throws library_error unless `status` is 0.
template <handle_library L>
void check_library(int status, std::string const& call, source_location where) {
    if (status != 0) throw library_error{status, L::lacks_memory(status), call, L::text_of(status), where};
}

/// A handle, and the resource of its workspaces.
template <handle_library L>
class library_state {
public:
    /// create(native&) makes the handle, or returns a status other than 0 and leaves nothing; its name is for messages.
    template <class Create>
    library_state(any_resource from, label const& name, std::string const& create_name, Create create)
        : memory{std::move(from)}, request{name} {
        make(create_name, create);
    }
    library_state(library_state const&) = delete;
    library_state& operator=(library_state const&) = delete;
    ~library_state() {
        if (process_number::is_cuda_of_parent()) return;
        std::optional<device_scope> here;
        report_failure_of([&] { here.emplace(home); });
        report_failure_of([this] { check_library<L>(L::destroy(native), call("Destroy"), {}); });
    }

    [[nodiscard]] static std::string call(char const* suffix) { return L::prefix() + suffix; }

    any_resource const memory;
    device const home = device::current();
    label const request;
    std::size_t workspace = 0;
    typename L::native native{};
    source_location user{};
    bool is_in_use = false;

private:
    // If a status can have several reasons, the free memory decides.
    [[nodiscard]] bool is_out_of_memory(int status) const {
        return L::lacks_memory(status) || (L::may_lack_memory(status) && home.memory().free < L::own_bytes());
    }
    template <class Create>
    void make(std::string const& name, Create& create) {
        process_number::note_cuda();
        if (process_number::is_cuda_of_parent()) throw_forked();
        expect_no_region("the creation of a library's handle");
        rt::set_call_site(request.where, request.name);
        driver_relief relief{home};
        int status = create(native);
        while (status != 0 && is_out_of_memory(status) && relief.relieve(L::own_bytes()))
            status = create(native);
        if (status == 0) return;
        rt::clear_last_error();
        if (is_out_of_memory(status))
            refuse_on(home, L::own_bytes(), 1, request, name.c_str(), relief.told());
        check_library<L>(status, name, request.where);
    }
};

}  // namespace detail

}  // namespace cuota::inline v0

namespace cuota::inline v0::inline CUOTA_VIEWS {

/// A library's handle on one device. Each scope of it allocates the library's workspace from a resource, such as a pool under a budget.
///
///     cublas_handle blas{pool};
///     {
///         auto const on_stream = blas.on(stream);  // allocates the workspace
///         blas.check(cublasSgemm(on_stream, ...), "cublasSgemm");
///     }                                            // frees it in the order of the stream
///
/// Scopes on one stream use the same memory in turn, also scopes of several libraries. In a `capture`, the workspace belongs to the graph.
/// Uses the device that is current on construction. Memory that the library allocates on construction is charged to no budget
/// (docs/budgets.md). If the device has no room for it, pools and caches release idle memory, as for a request. Move-only. The
/// library's handle is destroyed after the last scope has ended. In a forked child, the destructor makes no call.
/// Threads: one at a time.
/// Throws:  the constructor: out_of_memory, library_error, usage_error in a forked child, cuda_error.
/// Example: examples/library_workspaces.cpp
template <handle_library L>
class library_handle {
public:
    using native = typename L::native;  ///< the library's handle
    class scope;

    /// Makes a handle with a workspace of the usual size.
    explicit library_handle(any_resource memory, tag name = L::name(),
                            source_location where = source_location::current())
        : library_handle{std::move(memory), label{name, where}, detail::library_state<L>::call("Create"),
                         L::create} {
        if constexpr (workspace_library<L>) state_->workspace = L::usual_workspace(state_->home);
    }
    /// Makes a handle with that many bytes of workspace for each scope. With 0, the library uses memory of its own.
    library_handle(any_resource memory, std::size_t workspace_bytes, tag name = L::name(),
                   source_location where = source_location::current()) requires workspace_library<L>
        : library_handle{std::move(memory), name, where} {
        state_->workspace = workspace_bytes;
    }

    /// Sets the stream, and a workspace, until the end of the scope. s must be on the handle's device.
    /// Order:  the workspace is valid for work on s, and freed after it.
    /// Throws: budget_exceeded, out_of_memory for the workspace; usage_error while another scope is open, and for a stream of another
    ///         device; library_error. Nothing is allocated then, and the library has its own workspace.
    /// Cost:   an allocation and its deallocation, and three calls of the library.
    [[nodiscard]] scope on(stream_ref s, source_location where = source_location::current()) {
        return scope{state(where), s, where};
    }

    /// Throws library_error, with the library's text, unless `status` is success. `call` names the function.
    static void check(int status, char const* call, source_location where = source_location::current()) {
        detail::check_library<L>(status, call, where);
    }

    /// Returns the bytes of workspace of a scope.
    [[nodiscard]] std::size_t workspace_bytes() const { return state({})->workspace; }
    /// Returns the device of the handle.
    [[nodiscard]] cuota::device device() const { return state({})->home; }

protected:
    /// Makes a handle by create(native&), which returns a status; if that is not 0, it must leave nothing. `create_name` is for messages.
    template <class Create>
    library_handle(any_resource memory, label const& request, std::string const& create_name, Create create)
        : state_{std::make_shared<detail::library_state<L>>(std::move(memory), request, create_name,
                                                            std::move(create))} {}

    /// Returns the native handle, outside of a scope.
    [[nodiscard]] native get() const { return state({})->native; }
    /// Sets the bytes of workspace of later scopes.
    void set_workspace_bytes(std::size_t bytes) { state({})->workspace = bytes; }

private:
    using state_pointer = std::shared_ptr<detail::library_state<L>>;

    [[nodiscard]] state_pointer const& state(source_location where) const {
        if (!state_)
            detail::throw_usage_error(where, "library_handle: cannot be used after it was moved from");
        return state_;
    }

    state_pointer state_;
};

/// A handle that works on one stream, with a workspace. Converts to the native handle.
///
/// The handle's device is current for the thread until the scope ends. The destructor frees all memory of the scope in the order of the
/// stream, and does not wait.
/// Threads: the one that made it.
/// Example: examples/library_workspaces.cpp
template <handle_library L>
class library_handle<L>::scope {
public:
    scope(scope const&) = delete;
    scope& operator=(scope const&) = delete;
    ~scope() {
        if constexpr (workspace_library<L>)
            if (!blocks_.empty() && !detail::process_number::is_cuda_of_parent())
                report_failure_of([this] {
                    detail::check_library<L>(L::forget_workspace(get(), stream_.get()),
                                             L::forget_workspace_name(), {});
                });
        while (!blocks_.empty()) blocks_.pop_back();
    }

    [[nodiscard]] native get() const noexcept { return of_->native; }  ///< valid as long as the scope
    operator native() const noexcept { return get(); }                 ///< same

    /// Returns further device memory for operations that take their workspace as an argument. Valid for work on the scope's stream, and
    /// freed with the scope; null for 0 bytes. Throws: budget_exceeded, out_of_memory.
    [[nodiscard]] void* workspace(std::size_t bytes, source_location where = source_location::current()) {
        return bytes == 0 ? nullptr : blocks_.emplace_back(bytes, stream_, *of_, where).address();
    }
    /// Same for `count` elements of T.
    template <class T>
    [[nodiscard]] T* workspace_of(element_count count, source_location where = source_location::current()) {
        return static_cast<T*>(
            workspace(detail::bytes_of(count, label_for<T>(of_->request.name, where)), where));
    }

private:
    friend class library_handle;

    class turn {
    public:
        turn(detail::library_state<L>& of, source_location where) : of_{of} {
            if (detail::process_number::is_cuda_of_parent()) detail::throw_forked();
            if (of.is_in_use)
                detail::throw_usage_error(
                    where,
                    "library_handle: cannot begin a scope before the scope of {} ends; a handle works "
                    "on one stream at a time",
                    {of.user});
            of.is_in_use = true;
            of.user = where;
        }
        turn(turn const&) = delete;
        turn& operator=(turn const&) = delete;
        ~turn() { of_.is_in_use = false; }

    private:
        detail::library_state<L>& of_;
    };
    class block {
    public:
        block(std::size_t bytes, stream_ref s, detail::library_state<L> const& of, source_location where)
            : bytes_{bytes, s, of.memory, no_init, of.request.name, where}, use_{bytes_.write(s, where)} {}
        [[nodiscard]] void* address() const noexcept { return use_.data(); }

    private:
        device_buffer<std::byte> bytes_;
        lease<std::byte> use_;
    };

    scope(state_pointer of, stream_ref s, source_location where)
        : of_{std::move(of)}, turn_{*of_, where}, here_{of_->home}, stream_{s} {
        if (s.device() != of_->home)
            detail::throw_usage_error(where,
                                      "library_handle: the stream is on device {}, the handle on device {}",
                                      {s.device().ordinal(), of_->home.ordinal()});
        detail::check_library<L>(L::set_stream(get(), s.get()), of_->call("SetStream"), where);
        if constexpr (workspace_library<L>)
            if (void* const memory = workspace(of_->workspace, where))
                detail::check_library<L>(L::set_workspace(get(), memory, of_->workspace),
                                         L::set_workspace_name(), where);
    }

    state_pointer of_;
    turn turn_;
    device_scope here_;
    stream_ref stream_;
    std::deque<block> blocks_{};
};

}  // namespace cuota::inline v0::inline CUOTA_VIEWS
