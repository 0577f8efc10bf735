// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Trains the network of train.cpp on several ranks, each with its share of every batch; the losses do not depend on their number.
///
///     mpirun -n 4 build/dev/examples/train_ranks
///
/// Sums gradients with NCCL if the program is compiled with it and each rank has a GPU of its own, otherwise with MPI. Options make one
/// rank refuse memory, exit or hang, to show what the other ranks report. Exit status: 0 on success; 2 for an invalid command line; 1 for
/// errors of data, budgets, devices and ranks.
#include <cuota/data/datasets/idx_dataset.hpp>
#include <cuota/data/datasets/zip_dataset.hpp>
#include <cuota/interop/mpi.hpp>
#if defined(CUOTA_WITH_NCCL)
#include <cuota/interop/nccl.hpp>
#endif

#include <bit>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include <cuota/cuota.hpp>
#include <cuota/training.hpp>

#include "command_line.hpp"
#include "synthetic_digits.hpp"
#include "train_data.hpp"
#include "train_network.hpp"

namespace {

using namespace cuota::literals;
using command_line::usage_error;

constexpr char const* usage =
    "usage: mpirun -n RANKS train_ranks [options]\n"
    "\n"
    "Trains an image classifier (one hidden layer) on RANKS ranks; each has a share of every batch.\n"
    "\n"
    "  --mnist FOLDER         t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz; none: a synthetic "
    "set\n"
    "  --batch N              samples in a step, of all ranks together; they share them evenly   (256)\n"
    "  --steps N              steps                                                              (20)\n"
    "  --hidden N             units of the hidden layer                                          (128)\n"
    "  --rate X               learning rate                                                      (0.1)\n"
    "  --device-budget SIZE   what a rank may hold on the device                                 (4MiB)\n"
    "  --pinned-budget SIZE   what it may hold in page-locked host memory                        (1MiB)\n"
    "  --bucket SIZE          gradients that are summed together                                 (128KiB)\n"
    "  --deadline SECONDS     after which a rank that does not come counts as gone               (5)\n"
    "\n"
    "To see what the others say, one rank, in one step, may\n"
    "\n"
    "  --refuse RANK@STEP     be refused memory before the step\n"
    "  --refuse-late RANK@STEP   ... in its backward run, when sums are under way\n"
    "  --kill RANK@STEP       kill itself, when sums are under way\n"
    "  --stop RANK@STEP       stop, as if it hung\n";

/// A fault to inject: the rank and the step.
struct trouble {
    std::size_t rank = 0;
    std::size_t step = 0;
};

struct options {
    std::string mnist{};
    std::size_t batch = 256;
    std::size_t steps = 20;
    std::size_t hidden = 128;
    double rate = 0.1;
    std::size_t device_budget = 4_MiB;
    std::size_t pinned_budget = 1_MiB;
    std::size_t bucket = 128_KiB;
    std::size_t deadline = 5;
    std::optional<trouble> refuse{}, refuse_late{}, kill{}, stop{};
    bool help = false;
};

trouble trouble_of(std::string_view option, std::string_view text) {
    auto const at = text.find('@');
    if (at == text.npos) throw usage_error{std::string{option} + " takes RANK@STEP"};
    return {command_line::number<std::size_t>(option, text.substr(0, at)),
            command_line::number<std::size_t>(option, text.substr(at + 1))};
}

options parse(std::vector<std::string_view> const& arguments) {
    options o;
    for (std::size_t at = 0; at < arguments.size(); ++at) {
        std::string_view const option = arguments[at];
        auto const value = [&]() -> std::string_view {
            if (at + 1 >= arguments.size()) throw usage_error{std::string{option} + " needs a value"};
            return arguments[++at];
        };
        if (option == "--mnist") o.mnist = value();
        else if (option == "--batch") o.batch = command_line::positive(option, value());
        else if (option == "--steps") o.steps = command_line::positive(option, value());
        else if (option == "--hidden") o.hidden = command_line::positive(option, value());
        else if (option == "--rate") o.rate = command_line::number<double>(option, value());
        else if (option == "--device-budget") o.device_budget = command_line::size(option, value());
        else if (option == "--pinned-budget") o.pinned_budget = command_line::size(option, value());
        else if (option == "--bucket") o.bucket = command_line::size(option, value());
        else if (option == "--deadline") o.deadline = command_line::positive(option, value());
        else if (option == "--refuse") o.refuse = trouble_of(option, value());
        else if (option == "--refuse-late") o.refuse_late = trouble_of(option, value());
        else if (option == "--kill") o.kill = trouble_of(option, value());
        else if (option == "--stop") o.stop = trouble_of(option, value());
        else if (option == "--help" || option == "-h") o.help = true;
        else throw usage_error{"unknown option '" + std::string{option} + "'"};
    }
    return o;
}

/// Policy for summing gradients: the all-reduce backend and the memory of its buckets.
struct by_mpi {
    using link = cuota::mpi_all_reduce;
    static link make(cuota::mpi_group const& group, cuota::rank_consensus&, std::chrono::seconds) {
        return link{group};
    }
    static cuota::any_resource memory(cuota::budget const&, cuota::budget const& pinned) {
        return cuota::budgeted<cuota::pinned_memory>{pinned};
    }
};
#if defined(CUOTA_WITH_NCCL)
struct by_nccl {
    using link = cuota::nccl_all_reduce;
    static link make(cuota::mpi_group const&, cuota::rank_consensus& ranks, std::chrono::seconds deadline) {
        return link{ranks, deadline};
    }
    static cuota::any_resource memory(cuota::budget const& device, cuota::budget const&) {
        return cuota::budgeted<cuota::device_memory>{device};
    }
};
#endif

template <class Way>
class trainer {
public:
    trainer(options const& how, cuota::mpi_group const& group, train::any_samples const& samples,
            std::size_t classes)
        : how_{how}, group_{group}, ranks_{group_.join()} {
        if (how.batch % group.ranks() != 0)
            throw usage_error{"--batch " + std::to_string(how.batch) + " cannot be shared by " +
                              std::to_string(group.ranks()) + " ranks"};
        std::size_t const batch = how.batch / group.ranks();
        typename Way::link link = Way::make(group_, ranks_, std::chrono::seconds{how.deadline});
        cuota::loader_options load{.batch_size = batch,
                                   .device_budget = device_,
                                   .pinned_budget = pinned_,
                                   .seed = 1,
                                   .shard = group.shard()};
        // If the memory does not fit on one rank, no rank allocates it.
        cuota::all_or_none(ranks_, "the network and its buffers", [&] {
            loader_.emplace(samples, load);
            pool_.emplace(device_);
            net_.emplace(train::shape{batch, samples.fields()[0].count(), how.hidden, classes}, 1, stream_,
                         *pool_);
            sums_.emplace(
                std::move(link), net_->gradients(),
                cuota::bucket_options{.bytes = how.bucket, .memory = Way::memory(device_, pinned_)});
        });
    }

    void run() {
        for (std::uint64_t epoch = 0; step_ != how_.steps; ++epoch) {
            cuota::epoch_range range = loader_->epoch(epoch);
            while (step_ != how_.steps && step(range)) ++step_;
        }
    }

private:
    [[nodiscard]] bool is_now(std::optional<trouble> const& t) const {
        return t && t->rank == group_.rank() && t->step == step_;
    }
    void be_refused() {
        cuota::device_buffer<float> const more{device_.limit() / sizeof(float), stream_, *pool_};
    }

    /// Trains one step. Returns false at the end of the epoch, which all ranks reach at the same step.
    [[nodiscard]] bool step(cuota::epoch_range& range) {
        std::optional<cuota::batch> const batch = cuota::all_or_none(ranks_, "the next batch", [&] {
            if (is_now(how_.refuse)) be_refused();
            return range.next();
        });
        if (!batch) return false;
        cuota::micro_batch const part = cuota::local_share(ranks_, batch->size());
        net_->set_input(batch->view<std::uint8_t>(stream_, 0).span());
        net_->set_labels(batch->view<std::uint8_t>(stream_, 1).span());
        sums_->reduce(ranks_, [&] {
            net_->backward(1.0f / static_cast<float>(part.batch_size),
                           [&](std::size_t gradient, cuota::device_buffer<float>& of) {
                               sums_->ready(gradient, of);
                               if (gradient == 0) look_for_trouble();
                           });
        });
        net_->descend_by(static_cast<float>(how_.rate));
        tell(part);
        return true;
    }
    void look_for_trouble() {
        if (is_now(how_.refuse_late)) be_refused();
        if (is_now(how_.kill)) std::raise(SIGKILL);
        if (is_now(how_.stop)) std::raise(SIGSTOP);
    }
    /// Prints the mean loss over the samples of all ranks.
    void tell(cuota::micro_batch const& part) {
        auto const losses =
            ranks_.all_gather(std::bit_cast<std::uint64_t>(net_->take_totals().loss), "losses");
        double sum = 0;
        for (std::uint64_t const loss : losses) sum += std::bit_cast<double>(loss);
        if (group_.rank() != 0) return;
        std::printf("step %zu  samples %zu  loss %.12g\n", step_, part.batch_size,
                    sum / static_cast<double>(part.batch_size));
        std::fflush(stdout);
    }

    options const& how_;
    cuota::mpi_group group_;
    cuota::budget device_{"device", how_.device_budget};
    cuota::budget pinned_{"pinned", how_.pinned_budget, cuota::budget::for_host()};
    cuota::stream stream_;
    std::optional<cuota::batch_loader> loader_;
    std::optional<cuota::scoped_pool> pool_;
    std::optional<train::network> net_;
    std::optional<cuota::gradient_buckets<typename Way::link>> sums_;
    std::size_t step_ = 0;
    cuota::rank_consensus ranks_;  // destroyed first, which notifies the other ranks
};

/// The device of a rank. The ranks of one machine are distributed over its devices.
struct placement {
    cuota::device own{0};
    bool is_alone = false;  // true if every rank on every machine has a device of its own
};
placement place_rank() {
    int const devices = cuota::device::count();
    MPI_Comm here = MPI_COMM_NULL;
    int rank = 0;
    int ranks = 0;
    int is_alone = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
    MPI_Comm_rank(here, &rank);
    MPI_Comm_size(here, &ranks);
    MPI_Comm_free(&here);
    int const fits = ranks <= devices ? 1 : 0;
    MPI_Allreduce(&fits, &is_alone, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return {cuota::device{rank % devices}, is_alone != 0};
}

void train_on(placement const& where, cuota::mpi_group const& group, options const& how,
              train::any_samples const& samples, std::size_t classes) {
#if defined(CUOTA_WITH_NCCL)
    if (where.is_alone && !cuota::is_simulated()) return trainer<by_nccl>{how, group, samples, classes}.run();
#endif
    (void)where;
    trainer<by_mpi>{how, group, samples, classes}.run();
}

void run(options const& how, cuota::mpi_group const& group) {
    placement const where = place_rank();
    cuota::device_scope const here{where.own};
    std::optional<train::synthetic_digits> synthetic;
    if (how.mnist.empty()) synthetic.emplace(4'000, 1);
    std::filesystem::path const folder{how.mnist};
    cuota::idx_dataset const images{
        train::open(synthetic ? synthetic->images() : (folder / "t10k-images-idx3-ubyte.gz").string())};
    cuota::idx_dataset const labels{
        train::open(synthetic ? synthetic->labels() : (folder / "t10k-labels-idx1-ubyte.gz").string())};
    train::any_samples const samples{cuota::zip_dataset{images, labels}};
    train_on(where, group, how, samples, train::count_classes(labels));
    group.close();
}

std::string one_line(std::exception const& error) {
    std::string_view const text = error.what();
    return std::string{text.substr(0, text.find('\n'))};
}

/// Returns 0 to 2 if all ranks finish together. Otherwise aborts all ranks, because MPI_Finalize would block.
int run_rank(options const& how) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    auto const say = [&](std::exception const& error) {
        std::fflush(stdout);
        std::fprintf(stderr, "train_ranks: rank %d: %s\n", rank, one_line(error).c_str());
    };
    try {
        run(how, cuota::mpi_group{MPI_COMM_WORLD, std::chrono::seconds{how.deadline}});
        return 0;
    } catch (cuota::out_of_memory const& refused) {  // thrown on all ranks
        say(refused);
        return 1;
    } catch (usage_error const& error) {  // thrown on all ranks
        if (rank == 0) say(error);
        return 2;
    } catch (std::exception const& error) {
        say(error);
        std::this_thread::sleep_for(std::chrono::seconds{1});  // lets the other ranks print their errors
        MPI_Abort(MPI_COMM_WORLD, 1);
        return 1;
    }
}

}  // namespace

int main(int argc, char** argv) {
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    int status = 2;
    try {
        options const how = parse({argv + 1, argv + argc});
        if (how.help) std::fputs(usage, stdout);
        status = how.help ? 0 : run_rank(how);
    } catch (usage_error const& error) {
        std::fprintf(stderr, "train_ranks: %s (train_ranks --help lists the options)\n", error.what());
    }
    MPI_Finalize();
    return status;
}
