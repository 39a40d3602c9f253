// How OpenMP's threads wait for work: asleep.
//
// By default libgomp's threads spin while they wait, for a number of turns. Where other programs
// want the cores as well, the thread that has work waits for a core on which another one spins: on
// two busy cores a small ResNet trained at 30 images/s, and at 1185 where threads slept. libgomp
// reads the variable OMP_WAIT_POLICY when it is loaded, before main(), and has no call for it. So
// the command sets the variable and starts itself once more, in the same process.
//
//   int main(int argc, char** argv) {
//     WaitPassively(argv);  // before anything that would be lost
//     ...
//
// What the user has set (OMP_WAIT_POLICY or GOMP_SPINCOUNT) stays as it is, and nothing is started
// again. Programs that use the library set the variable themselves (layers/cpu/cpu_device.h).
#pragma once

namespace neap::apps {

// `argv` is main()'s. Returns in the process that waits passively, and where the program cannot be
// started again: then all works, but more slowly on a busy machine.
void WaitPassively(char** argv);

}  // namespace neap::apps
