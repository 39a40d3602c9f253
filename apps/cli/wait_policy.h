// Makes OpenMP's threads sleep while they wait for work.
//
// By default libgomp's threads spin for a while when they wait. If other programs use the cores as
// well, a thread that has work waits for a core on which another thread spins: on two busy cores a
// small ResNet trained at 30 images/s, and at 1185 with sleeping threads. libgomp reads the
// variable OMP_WAIT_POLICY when it is loaded, before main(), and offers no call for it. So the
// command sets the variable and executes itself again in the same process.
//
//   WaitPassively(argv);  // at the start of main(), before anything that would be lost
//
// If the user has set OMP_WAIT_POLICY or GOMP_SPINCOUNT, the setting is kept and nothing is
// executed again. Programs that use the library set the variable themselves
// (layers/cpu/cpu_device.h).
#pragma once

namespace neap::apps {

// `argv` is main()'s. Returns once threads wait passively, or if the program cannot execute itself
// again; everything then works, but more slowly on a busy machine.
void WaitPassively(char** argv);

}  // namespace neap::apps
