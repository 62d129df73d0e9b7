/*
 * The functions of the module, a row each:
 *
 *     ROW(module, name, takes, gives, flags, C function, call, usage)
 *
 * takes, gives and flags as in call.h. In the call, P(n), I(n) ... are the arguments, O_P(n) and so
 * on the places of the values. C function: whether it is there decides whether the name is exported
 * (unsupported.c of the library is the list of those that are not); NULL for what has none.
 * Reference: /api/python.md of the project.
 */

/* --- acl --- */
ROW(top, init, "|s", "", 0, aclInit, aclInit(S(0)), "ret = acl.init([config_path])")
ROW(top, finalize, "", "", 0, aclFinalize, aclFinalize(), "ret = acl.finalize()")
ROW(top, finalize_reference, "", "P", 0, aclFinalizeReference, aclFinalizeReference(O_U(0)),
    "count, ret = acl.finalize_reference()")
ROW(top, get_recent_err_msg, "", "t", BARE, aclGetRecentErrMsg, (*O_T(0) = aclGetRecentErrMsg(), 0),
    "text = acl.get_recent_err_msg(): text of this thread's recent failures, or None; cleared by "
    "the call")
ROW(top, get_soc_name, "", "t", BARE, aclrtGetSocName, (*O_T(0) = aclrtGetSocName(), 0),
    "name = acl.get_soc_name()")
ROW(top, get_version, "", "iii", 0, aclrtGetVersion, aclrtGetVersion(O_I(0), O_I(1), O_I(2)),
    "major, minor, patch, ret = acl.get_version()")
ROW(top, app_log, "is", "", HOLDS_GIL | NOTHING, aclAppLog, app_log(I(0), S(1)),
    "acl.app_log(level, text): level 0 debug, 1 info, 2 warning, 3 error")

/* --- devices --- */
ROW(rt, set_device, "i", "", 0, aclrtSetDevice, aclrtSetDevice(I(0)),
    "ret = acl.rt.set_device(device)")
ROW(rt, reset_device, "i", "", 0, aclrtResetDevice, aclrtResetDevice(I(0)),
    "ret = acl.rt.reset_device(device)")
ROW(rt, reset_device_force, "i", "", 0, aclrtResetDeviceForce, aclrtResetDeviceForce(I(0)),
    "ret = acl.rt.reset_device_force(device)")
ROW(rt, get_device, "", "i", 0, aclrtGetDevice, aclrtGetDevice(O_I(0)),
    "device, ret = acl.rt.get_device()")
ROW(rt, get_device_count, "", "u", 0, aclrtGetDeviceCount, aclrtGetDeviceCount(O_W(0)),
    "count, ret = acl.rt.get_device_count()")
ROW(rt, get_run_mode, "", "i", 0, aclrtGetRunMode, aclrtGetRunMode(O_ENUM(0)),
    "mode, ret = acl.rt.get_run_mode(): 0 on the device, 1 on the host")
ROW(rt, query_device_status, "i", "i", 0, aclrtQueryDeviceStatus,
    aclrtQueryDeviceStatus(I(0), O_ENUM(0)), "status, ret = acl.rt.query_device_status(device)")
ROW(rt, device_get_stream_priority_range, "", "ii", 0, aclrtDeviceGetStreamPriorityRange,
    aclrtDeviceGetStreamPriorityRange(O_I(0), O_I(1)),
    "least, greatest, ret = acl.rt.device_get_stream_priority_range()")
ROW(rt, device_can_access_peer, "ii", "i", 0, aclrtDeviceCanAccessPeer,
    aclrtDeviceCanAccessPeer(O_I(0), I(0), I(1)),
    "can, ret = acl.rt.device_can_access_peer(device, peer)")
ROW(rt, device_enable_peer_access, "iu", "", 0, aclrtDeviceEnablePeerAccess,
    aclrtDeviceEnablePeerAccess(I(0), W(1)), "ret = acl.rt.device_enable_peer_access(peer, flags)")
ROW(rt, device_disable_peer_access, "i", "", 0, aclrtDeviceDisablePeerAccess,
    aclrtDeviceDisablePeerAccess(I(0)), "ret = acl.rt.device_disable_peer_access(peer)")
ROW(rt, device_get_bare_tgid, "", "i", 0, aclrtDeviceGetBareTgid, aclrtDeviceGetBareTgid(O_I(0)),
    "pid, ret = acl.rt.device_get_bare_tgid()")
ROW(rt, peek_at_last_error, "i", "", 0, aclrtPeekAtLastError,
    aclrtPeekAtLastError((aclrtLastErrLevel)I(0)), "code = acl.rt.peek_at_last_error(level)")
ROW(rt, get_last_error, "i", "", 0, aclrtGetLastError, aclrtGetLastError((aclrtLastErrLevel)I(0)),
    "code = acl.rt.get_last_error(level)")

/* --- contexts --- */
ROW(rt, create_context, "i", "P", 0, aclrtCreateContext, aclrtCreateContext(O_P(0), I(0)),
    "context, ret = acl.rt.create_context(device)")
ROW(rt, destroy_context, "P", "", 0, aclrtDestroyContext, aclrtDestroyContext(P(0)),
    "ret = acl.rt.destroy_context(context)")
ROW(rt, set_context, "P", "", 0, aclrtSetCurrentContext, aclrtSetCurrentContext(P(0)),
    "ret = acl.rt.set_context(context)")
ROW(rt, get_context, "", "P", 0, aclrtGetCurrentContext, aclrtGetCurrentContext(O_P(0)),
    "context, ret = acl.rt.get_context()")

/* --- streams --- */
ROW(rt, create_stream, "", "P", 0, aclrtCreateStream, aclrtCreateStream(O_P(0)),
    "stream, ret = acl.rt.create_stream()")
ROW(rt, create_stream_with_config, "uu", "P", 0, aclrtCreateStreamWithConfig,
    aclrtCreateStreamWithConfig(O_P(0), W(0), W(1)),
    "stream, ret = acl.rt.create_stream_with_config(priority, flag)")
ROW(rt, destroy_stream, "P", "", 0, aclrtDestroyStream, aclrtDestroyStream(P(0)),
    "ret = acl.rt.destroy_stream(stream)")
ROW(rt, destroy_stream_force, "P", "", 0, aclrtDestroyStreamForce, aclrtDestroyStreamForce(P(0)),
    "ret = acl.rt.destroy_stream_force(stream)")
ROW(rt, synchronize_stream, "P", "", 0, aclrtSynchronizeStream, aclrtSynchronizeStream(P(0)),
    "ret = acl.rt.synchronize_stream(stream)")
ROW(rt, synchronize_stream_with_timeout, "Pi", "", 0, aclrtSynchronizeStreamWithTimeout,
    aclrtSynchronizeStreamWithTimeout(P(0), I(1)),
    "ret = acl.rt.synchronize_stream_with_timeout(stream, ms)")
ROW(rt, stream_query, "P", "i", 0, aclrtStreamQuery, aclrtStreamQuery(P(0), O_ENUM(0)),
    "status, ret = acl.rt.stream_query(stream): 0 complete, 1 not ready")

/* --- events --- */
ROW(rt, create_event, "", "P", 0, aclrtCreateEvent, aclrtCreateEvent(O_P(0)),
    "event, ret = acl.rt.create_event()")
ROW(rt, create_event_with_flag, "u", "P", 0, aclrtCreateEventWithFlag,
    aclrtCreateEventWithFlag(O_P(0), W(0)), "event, ret = acl.rt.create_event_with_flag(flag)")
ROW(rt, create_event_ex_with_flag, "u", "P", 0, aclrtCreateEventExWithFlag,
    aclrtCreateEventExWithFlag(O_P(0), W(0)), "event, ret = acl.rt.create_event_ex_with_flag(flag)")
ROW(rt, destroy_event, "P", "", 0, aclrtDestroyEvent, aclrtDestroyEvent(P(0)),
    "ret = acl.rt.destroy_event(event)")
ROW(rt, record_event, "PP", "", 0, aclrtRecordEvent, aclrtRecordEvent(P(0), P(1)),
    "ret = acl.rt.record_event(event, stream)")
ROW(rt, reset_event, "PP", "", 0, aclrtResetEvent, aclrtResetEvent(P(0), P(1)),
    "ret = acl.rt.reset_event(event, stream)")
ROW(rt, query_event, "P", "i", HOLDS_GIL, aclrtQueryEvent, aclrtQueryEvent(P(0), O_ENUM(0)),
    "status, ret = acl.rt.query_event(event): 0 complete, 1 not ready")
ROW(rt, query_event_status, "P", "i", HOLDS_GIL, aclrtQueryEventStatus,
    aclrtQueryEventStatus(P(0), O_ENUM(0)),
    "status, ret = acl.rt.query_event_status(event): 1 complete, 0 not ready")
ROW(rt, query_event_wait_status, "P", "i", HOLDS_GIL, aclrtQueryEventWaitStatus,
    aclrtQueryEventWaitStatus(P(0), O_ENUM(0)),
    "status, ret = acl.rt.query_event_wait_status(event): 0 complete, 1 not ready")
ROW(rt, synchronize_event, "P", "", 0, aclrtSynchronizeEvent, aclrtSynchronizeEvent(P(0)),
    "ret = acl.rt.synchronize_event(event)")
ROW(rt, synchronize_event_with_timeout, "Pi", "", 0, aclrtSynchronizeEventWithTimeout,
    aclrtSynchronizeEventWithTimeout(P(0), I(1)),
    "ret = acl.rt.synchronize_event_with_timeout(event, ms)")
ROW(rt, event_elapsed_time, "PP", "f", 0, aclrtEventElapsedTime,
    aclrtEventElapsedTime(O_F(0), P(0), P(1)), "ms, ret = acl.rt.event_elapsed_time(start, end)")
ROW(rt, event_get_timestamp, "P", "P", 0, aclrtEventGetTimestamp,
    aclrtEventGetTimestamp(P(0), O_U(0)), "us, ret = acl.rt.event_get_timestamp(event)")
ROW(rt, get_event_id, "P", "u", 0, aclrtGetEventId, aclrtGetEventId(P(0), O_W(0)),
    "id, ret = acl.rt.get_event_id(event)")
ROW(rt, get_event_avail_num, "", "u", 0, aclrtGetEventAvailNum, aclrtGetEventAvailNum(O_W(0)),
    "count, ret = acl.rt.get_event_avail_num()")
ROW(rt, stream_wait_event, "PP", "", 0, aclrtStreamWaitEvent, aclrtStreamWaitEvent(P(0), P(1)),
    "ret = acl.rt.stream_wait_event(stream, event)")
ROW(rt, set_op_wait_timeout, "u", "", 0, aclrtSetOpWaitTimeout, aclrtSetOpWaitTimeout(W(0)),
    "ret = acl.rt.set_op_wait_timeout(seconds)")
ROW(rt, synchronize_device, "", "", 0, aclrtSynchronizeDevice, aclrtSynchronizeDevice(),
    "ret = acl.rt.synchronize_device()")
ROW(rt, synchronize_device_with_timeout, "i", "", 0, aclrtSynchronizeDeviceWithTimeout,
    aclrtSynchronizeDeviceWithTimeout(I(0)), "ret = acl.rt.synchronize_device_with_timeout(ms)")
ROW(rt, ipc_get_event_handle, "P", "e", 0, aclrtIpcGetEventHandle,
    aclrtIpcGetEventHandle(P(0), &c->handle),
    "handle, ret = acl.rt.ipc_get_event_handle(event): 64 bytes for another process")
ROW(rt, ipc_open_event_handle, "e", "P", 0, aclrtIpcOpenEventHandle,
    aclrtIpcOpenEventHandle(c->handle, O_P(0)), "event, ret = acl.rt.ipc_open_event_handle(handle)")

/* --- callbacks and failed tasks --- */
ROW(rt, subscribe_report, "PP", "", 0, aclrtSubscribeReport, aclrtSubscribeReport(U(0), P(1)),
    "ret = acl.rt.subscribe_report(thread_id, stream)")
ROW(rt, unsubscribe_report, "PP", "", 0, aclrtUnSubscribeReport, aclrtUnSubscribeReport(U(0), P(1)),
    "ret = acl.rt.unsubscribe_report(thread_id, stream)")
ROW(rt, process_report, "i", "", 0, aclrtProcessReport, aclrtProcessReport(I(0)),
    "ret = acl.rt.process_report(ms)")
ROW(rt, launch_callback, "fOiP", "", HOLDS_GIL, aclrtLaunchCallback,
    callback_launch(O(0), O(1), I(2), P(3)),
    "ret = acl.rt.launch_callback(fn, user_data_list, block_type, stream)")
ROW(rt, set_exception_info_callback, "|F", "", HOLDS_GIL, aclrtSetExceptionInfoCallback,
    callback_set_exception(O(0)), "ret = acl.rt.set_exception_info_callback([fn])")
ROW(rt, get_task_id_from_exception_info, "P", "u", BARE | HOLDS_GIL,
    aclrtGetTaskIdFromExceptionInfo, (*O_W(0) = aclrtGetTaskIdFromExceptionInfo(P(0)), 0),
    "task_id = acl.rt.get_task_id_from_exception_info(info)")
ROW(rt, get_stream_id_from_exception_info, "P", "u", BARE | HOLDS_GIL,
    aclrtGetStreamIdFromExceptionInfo, (*O_W(0) = aclrtGetStreamIdFromExceptionInfo(P(0)), 0),
    "stream_id = acl.rt.get_stream_id_from_exception_info(info)")
ROW(rt, get_thread_id_from_exception_info, "P", "u", BARE | HOLDS_GIL,
    aclrtGetThreadIdFromExceptionInfo, (*O_W(0) = aclrtGetThreadIdFromExceptionInfo(P(0)), 0),
    "thread_id = acl.rt.get_thread_id_from_exception_info(info)")
ROW(rt, get_device_id_from_exception_info, "P", "u", BARE | HOLDS_GIL,
    aclrtGetDeviceIdFromExceptionInfo, (*O_W(0) = aclrtGetDeviceIdFromExceptionInfo(P(0)), 0),
    "device_id = acl.rt.get_device_id_from_exception_info(info)")
ROW(rt, get_error_code_from_exception_info, "P", "u", BARE | HOLDS_GIL,
    aclrtGetErrorCodeFromExceptionInfo, (*O_W(0) = aclrtGetErrorCodeFromExceptionInfo(P(0)), 0),
    "code = acl.rt.get_error_code_from_exception_info(info)")

/* --- memory --- */
ROW(rt, malloc, "Pi", "P", 0, aclrtMalloc, aclrtMalloc(O_P(0), Z(0), (aclrtMemMallocPolicy)I(1)),
    "dev_ptr, ret = acl.rt.malloc(size, policy)")
ROW(rt, malloc_align32, "Pi", "P", 0, aclrtMallocAlign32,
    aclrtMallocAlign32(O_P(0), Z(0), (aclrtMemMallocPolicy)I(1)),
    "dev_ptr, ret = acl.rt.malloc_align32(size, policy)")
ROW(rt, malloc_cached, "Pi", "P", 0, aclrtMallocCached,
    aclrtMallocCached(O_P(0), Z(0), (aclrtMemMallocPolicy)I(1)),
    "dev_ptr, ret = acl.rt.malloc_cached(size, policy)")
ROW(rt, free, "P", "", 0, aclrtFree, aclrtFree(P(0)), "ret = acl.rt.free(dev_ptr)")
ROW(rt, malloc_host, "P", "P", 0, aclrtMallocHost, aclrtMallocHost(O_P(0), Z(0)),
    "host_ptr, ret = acl.rt.malloc_host(size)")
ROW(rt, free_host, "P", "", 0, aclrtFreeHost, aclrtFreeHost(P(0)),
    "ret = acl.rt.free_host(host_ptr)")
ROW(rt, memcpy, "PPPPi", "", 0, aclrtMemcpy,
    aclrtMemcpy(P(0), Z(1), P(2), Z(3), (aclrtMemcpyKind)I(4)),
    "ret = acl.rt.memcpy(dst, dest_max, src, count, kind)")
ROW(rt, memcpy_async, "PPPPiP", "", 0, aclrtMemcpyAsync,
    aclrtMemcpyAsync(P(0), Z(1), P(2), Z(3), (aclrtMemcpyKind)I(4), P(5)),
    "ret = acl.rt.memcpy_async(dst, dest_max, src, count, kind, stream)")
ROW(rt, memset, "PPiP", "", 0, aclrtMemset, aclrtMemset(P(0), Z(1), I(2), Z(3)),
    "ret = acl.rt.memset(ptr, max_count, value, count)")
ROW(rt, memset_async, "PPiPP", "", 0, aclrtMemsetAsync,
    aclrtMemsetAsync(P(0), Z(1), I(2), Z(3), P(4)),
    "ret = acl.rt.memset_async(ptr, max_count, value, count, stream)")
ROW(rt, get_mem_info, "i", "PP", 0, aclrtGetMemInfo,
    aclrtGetMemInfo((aclrtMemAttr)I(0), O_Z(0), O_Z(1)),
    "free, total, ret = acl.rt.get_mem_info(attr)")
ROW(rt, mem_flush, "PP", "", 0, aclrtMemFlush, aclrtMemFlush(P(0), Z(1)),
    "ret = acl.rt.mem_flush(ptr, size)")
ROW(rt, mem_invalidate, "PP", "", 0, aclrtMemInvalidate, aclrtMemInvalidate(P(0), Z(1)),
    "ret = acl.rt.mem_invalidate(ptr, size)")
ROW(rt, memcpy2d, "PPPPPPi", "", 0, aclrtMemcpy2d,
    aclrtMemcpy2d(P(0), Z(1), P(2), Z(3), Z(4), Z(5), (aclrtMemcpyKind)I(6)),
    "ret = acl.rt.memcpy2d(dst, dpitch, src, spitch, width, height, kind)")
ROW(rt, memcpy2d_async, "PPPPPPiP", "", 0, aclrtMemcpy2dAsync,
    aclrtMemcpy2dAsync(P(0), Z(1), P(2), Z(3), Z(4), Z(5), (aclrtMemcpyKind)I(6), P(7)),
    "ret = acl.rt.memcpy2d_async(dst, dpitch, src, spitch, width, height, kind, stream)")
ROW(rt, pointer_get_attributes, "P", "o", HOLDS_GIL, aclrtPointerGetAttributes,
    pointer_attributes(P(0), O_O(0)),
    "attributes, ret = acl.rt.pointer_get_attributes(ptr): a dict")
ROW(rt, host_register, "PPi", "P", 0, aclrtHostRegister,
    aclrtHostRegister(P(0), U(1), (aclrtHostRegisterType)I(2), O_P(0)),
    "dev_ptr, ret = acl.rt.host_register(ptr, size, type)")
ROW(rt, host_unregister, "P", "", 0, aclrtHostUnregister, aclrtHostUnregister(P(0)),
    "ret = acl.rt.host_unregister(ptr)")

/* --- memory of several processes --- */
ROW(rt, ipc_mem_get_export_key, "PPkP", "k", 0, aclrtIpcMemGetExportKey,
    aclrtIpcMemGetExportKey(P(0), Z(1), c->key, Z(2), U(3)),
    "key, ret = acl.rt.ipc_mem_get_export_key(ptr, size, len, flags)")
ROW(rt, ipc_mem_set_import_pid, "sl", "", 0, aclrtIpcMemSetImportPid,
    aclrtIpcMemSetImportPid(S(0), LIST(1)), "ret = acl.rt.ipc_mem_set_import_pid(key, pids)")
ROW(rt, ipc_mem_import_by_key, "sP", "P", 0, aclrtIpcMemImportByKey,
    aclrtIpcMemImportByKey(O_P(0), S(0), U(1)),
    "ptr, ret = acl.rt.ipc_mem_import_by_key(key, flags)")
ROW(rt, ipc_mem_close, "s", "", 0, aclrtIpcMemClose, aclrtIpcMemClose(S(0)),
    "ret = acl.rt.ipc_mem_close(key)")

/* --- notifies --- */
ROW(rt, create_notify, "P", "P", 0, aclrtCreateNotify, aclrtCreateNotify(O_P(0), U(0)),
    "notify, ret = acl.rt.create_notify(flag)")
ROW(rt, destroy_notify, "P", "", 0, aclrtDestroyNotify, aclrtDestroyNotify(P(0)),
    "ret = acl.rt.destroy_notify(notify)")
ROW(rt, record_notify, "PP", "", 0, aclrtRecordNotify, aclrtRecordNotify(P(0), P(1)),
    "ret = acl.rt.record_notify(notify, stream)")
ROW(rt, wait_and_reset_notify, "PPm", "", 0, aclrtWaitAndResetNotify,
    aclrtWaitAndResetNotify(P(0), P(1), W(2)),
    "ret = acl.rt.wait_and_reset_notify(notify, stream, seconds)")
ROW(rt, get_notify_id, "P", "u", 0, aclrtGetNotifyId, aclrtGetNotifyId(P(0), O_W(0)),
    "id, ret = acl.rt.get_notify_id(notify)")
ROW(rt, notify_batch_reset, "h", "", 0, aclrtNotifyBatchReset, aclrtNotifyBatchReset(LIST(0)),
    "ret = acl.rt.notify_batch_reset(notifies)")
ROW(rt, notify_get_export_key, "PkP", "k", 0, aclrtNotifyGetExportKey,
    aclrtNotifyGetExportKey(P(0), c->key, Z(1), U(2)),
    "key, ret = acl.rt.notify_get_export_key(notify, len, flags)")
ROW(rt, notify_set_import_pid, "Pl", "", 0, aclrtNotifySetImportPid,
    aclrtNotifySetImportPid(P(0), LIST(1)), "ret = acl.rt.notify_set_import_pid(notify, pids)")
ROW(rt, notify_import_by_key, "sP", "P", 0, aclrtNotifyImportByKey,
    aclrtNotifyImportByKey(O_P(0), S(0), U(1)),
    "notify, ret = acl.rt.notify_import_by_key(key, flags)")

/* --- acl.util --- */
ROW(util, bytes_to_ptr, "b", "P", BARE | HOLDS_GIL, NULL, (*O_P(0) = PyBytes_AS_STRING(O(0)), 0),
    "ptr = acl.util.bytes_to_ptr(data): address of the bytes; keep data alive")
ROW(util, ptr_to_bytes, "PP", "o", BARE | HOLDS_GIL, NULL, (*O_O(0) = util_bytes(P(0), U(1)), 0),
    "data = acl.util.ptr_to_bytes(ptr, size): a copy; of 64 KiB or more while other threads run, "
    "whose "
    "writes to it meanwhile are in the copy or not")
ROW(util, numpy_to_ptr, "O", "P", BARE | HOLDS_GIL, NULL, util_numpy_address(O(0), O_U(0)),
    "ptr = acl.util.numpy_to_ptr(array): address of element 0; keep array alive")
ROW(util, numpy_contiguous_to_ptr, "O", "Po", BARE | HOLDS_GIL, NULL,
    util_numpy_contiguous(O(0), O_U(0), O_O(1)),
    "ptr, array = acl.util.numpy_contiguous_to_ptr(array): keep the returned array alive")
ROW(util, ptr_to_numpy, "POi", "o", BARE | HOLDS_GIL, NULL,
    (*O_O(0) = util_numpy_view(P(0), O(1), I(2)), 0),
    "array = acl.util.ptr_to_numpy(ptr, shape, type): a view of the memory")
ROW(util, start_thread, "fO", "P", HOLDS_GIL, NULL, thread_start(O(0), O(1), O_U(0)),
    "thread_id, ret = acl.util.start_thread(fn, args_list)")
ROW(util, stop_thread, "P", "", HOLDS_GIL, NULL, thread_stop(U(0)),
    "ret = acl.util.stop_thread(thread_id): waits for its end")

/* --- acl.npud: what other implementations do not have (acl_npud.h) --- */
ROW(npud, launch_delay, "PiP", "", 0, aclnpudLaunchDelay, aclnpudLaunchDelay(U(0), I(1), P(2)),
    "ret = acl.npud.launch_delay(microseconds, result, stream)")
ROW(npud, ipc_open_event_on_device, "ei", "P", 0, aclnpudIpcOpenEventOnDevice,
    aclnpudIpcOpenEventOnDevice(O_P(0), c->handle, I(1)),
    "event, ret = acl.npud.ipc_open_event_on_device(handle, device)")
ROW(npud, ipc_open_event_in_context, "eP", "P", 0, aclnpudIpcOpenEventInContext,
    aclnpudIpcOpenEventInContext(O_P(0), c->handle, P(1)),
    "event, ret = acl.npud.ipc_open_event_in_context(handle, context)")
ROW(npud, event_notify_fd, "Pi", "", 0, aclnpudEventNotifyFd, aclnpudEventNotifyFd(P(0), I(1)),
    "ret = acl.npud.event_notify_fd(event, fd): the eventfd is written when the latest record is "
    "complete")
