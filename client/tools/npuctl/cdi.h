/*
 * Container Device Interface: a file by which podman and other runtimes give NPUs to containers.
 * The kind is npud/npu, with a device for each NPU and one for all of them. What a container gets
 * is npud's socket for programs, the toolkit tree with what it needs, and the environment that
 * leads to them.
 */
#pragma once

#include "client/tools/npuctl/task.h"
#include "proto/wire/npud.pb-c.h"

/**
 * Writes the file for the devices of a report to task->output, whole or not at all; "-" is standard
 * output. The tree is that of the installation that this npuctl is of. STATUS_ERROR, with a
 * sentence on stderr, if there is none, if npud's socket for programs is not there, or if the file
 * cannot be written.
 */
enum status cdi_print(const Npud__Report *report, const struct task *task);
