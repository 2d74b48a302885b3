/* SPDX-License-Identifier: MIT */
/* Plain C: every function of framelane.h, without a handle. None may crash; each says what it says then. check_abi.py
 * looks that none is left out. */
#include <stdio.h>
#include <string.h>

#include "framelane/framelane.h"

static int failures = 0;

static void expect(int holds, const char* name) {
  if (holds) return;
  fprintf(stderr, "%s: another answer than expected; the last error was: %s\n", name, framelane_error_text());
  ++failures;
}

static void library_without_handle(void) {
  expect(framelane_version() != NULL, "framelane_version");
  expect(framelane_version_number() > 0, "framelane_version_number");
  expect(framelane_code_name(FRAMELANE_OK) != NULL, "framelane_code_name");
  expect(strcmp(framelane_code_name((framelane_code)16), "unknown") == 0, "framelane_code_name of none");
  expect(framelane_error_text() != NULL, "framelane_error_text");
  expect(framelane_error_code() == FRAMELANE_INVALID_ARGUMENT, "framelane_error_code");
  expect(framelane_set_log_hook(NULL, NULL) == FRAMELANE_OK, "framelane_set_log_hook");
  framelane_log(0, NULL);
}

static void frame_without_handle(void) {
  framelane_frame_info_init(NULL, 0);
  expect(framelane_frame_ref(NULL) == NULL, "framelane_frame_ref");
  framelane_frame_unref(NULL);
  expect(framelane_frame_data(NULL) == NULL, "framelane_frame_data");
  expect(framelane_frame_size(NULL) == 0, "framelane_frame_size");
  expect(framelane_frame_seq(NULL) == 0, "framelane_frame_seq");
  expect(framelane_frame_skipped(NULL) == 0, "framelane_frame_skipped");
  expect(framelane_frame_pts(NULL) == FRAMELANE_NO_TIME, "framelane_frame_pts");
  expect(framelane_frame_dts(NULL) == FRAMELANE_NO_TIME, "framelane_frame_dts");
  expect(framelane_frame_duration(NULL) == FRAMELANE_NO_TIME, "framelane_frame_duration");
  expect(framelane_frame_flags(NULL) == 0, "framelane_frame_flags");
  expect(framelane_frame_type_id(NULL) == 0, "framelane_frame_type_id");
  expect(framelane_frame_due(NULL) == FRAMELANE_NO_CLOCK_TIME, "framelane_frame_due");
  expect(framelane_frame_published(NULL) == 0, "framelane_frame_published");
  expect(framelane_frame_latency(NULL) == -1, "framelane_frame_latency");
  expect(framelane_frame_get_info(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_frame_get_info");
  expect(framelane_frame_side_data(NULL, NULL) == NULL, "framelane_frame_side_data");
  expect(framelane_frame_slot(NULL) == -1, "framelane_frame_slot");
  expect(framelane_frame_is_copy(NULL) == 0, "framelane_frame_is_copy");
  expect(framelane_frame_is_inline(NULL) == 0, "framelane_frame_is_inline");
  expect(framelane_frame_caps(NULL) != NULL, "framelane_frame_caps");
  expect(framelane_frame_caps_id(NULL) == 0, "framelane_frame_caps_id");
  expect(framelane_frame_get_format(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_frame_get_format");
}

static void producer_without_handle(void) {
  framelane_event_init(NULL, 0);
  framelane_upstream_init(NULL, 0);
  framelane_producer_settings_init(NULL, 0);
  framelane_publish_options_init(NULL, 0);
  expect(framelane_producer_open(NULL, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_producer_open");
  framelane_producer_close(NULL);
  expect(framelane_producer_reserve(NULL, 0) == FRAMELANE_INVALID_ARGUMENT, "framelane_producer_reserve");
  expect(framelane_producer_loan(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_producer_loan");
  expect(framelane_producer_try_loan(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_producer_try_loan");
  expect(framelane_loan_data(NULL) == NULL, "framelane_loan_data");
  expect(framelane_loan_capacity(NULL) == 0, "framelane_loan_capacity");
  expect(framelane_loan_slot(NULL) == -1, "framelane_loan_slot");
  framelane_loan_discard(NULL);
  expect(framelane_producer_publish(NULL, NULL, 0, NULL, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_producer_publish");
  expect(framelane_producer_publish_copy(NULL, NULL, 0, NULL, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_producer_publish_copy");
  expect(framelane_producer_publish_many(NULL, NULL, NULL, NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_producer_publish_many");
  expect(framelane_producer_publish_kept(NULL, NULL, 0, NULL, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_producer_publish_kept");
  expect(framelane_producer_reclaimed(NULL, NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_producer_reclaimed");
  framelane_producer_wake_consumers(NULL);
  expect(framelane_producer_send(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_producer_send");
  expect(framelane_producer_set_caps(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_producer_set_caps");
  expect(framelane_producer_end_of_stream(NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_producer_end_of_stream");
  framelane_producer_flush_start(NULL);
  expect(framelane_producer_flush_stop(NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_producer_flush_stop");
  expect(framelane_producer_take_upstream(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_producer_take_upstream");
  expect(framelane_producer_on_upstream(NULL, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_producer_on_upstream");
  expect(framelane_producer_on_consumer(NULL, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_producer_on_consumer");
  expect(framelane_producer_wait_for_consumers(NULL, 0, 0) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_producer_wait_for_consumers");
  expect(framelane_producer_drain(NULL, 0) == FRAMELANE_INVALID_ARGUMENT, "framelane_producer_drain");
  expect(framelane_producer_num_consumers(NULL) == 0, "framelane_producer_num_consumers");
  expect(framelane_producer_set_leaky(NULL, 0) == FRAMELANE_INVALID_ARGUMENT, "framelane_producer_set_leaky");
  framelane_producer_interrupt(NULL);
  framelane_producer_resume(NULL);
  expect(framelane_producer_get_stats(NULL, NULL, NULL, 0) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_producer_get_stats");
  expect(framelane_producer_descriptor(NULL) != NULL, "framelane_producer_descriptor");
}

static void consumer_without_handle(void) {
  framelane_consumer_settings_init(NULL, 0);
  expect(framelane_consumer_open(NULL, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_consumer_open");
  framelane_consumer_close(NULL);
  expect(framelane_consumer_connect(NULL, 0) == FRAMELANE_INVALID_ARGUMENT, "framelane_consumer_connect");
  expect(framelane_consumer_take(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_consumer_take");
  expect(framelane_consumer_try_take(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_consumer_try_take");
  expect(framelane_consumer_take_many(NULL, 0, NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_consumer_take_many");
  expect(framelane_consumer_take_item(NULL, 0, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_consumer_take_item");
  expect(framelane_consumer_event_fd(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_consumer_event_fd");
  expect(framelane_consumer_caps(NULL) != NULL, "framelane_consumer_caps");
  expect(framelane_consumer_send_upstream(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_consumer_send_upstream");
  expect(framelane_consumer_on_connection(NULL, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_consumer_on_connection");
  expect(framelane_consumer_on_flush(NULL, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_consumer_on_flush");
  expect(framelane_consumer_flushing(NULL) == 0, "framelane_consumer_flushing");
  expect(framelane_consumer_producer_id(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_consumer_producer_id");
  framelane_consumer_interrupt(NULL);
  framelane_consumer_resume(NULL);
  expect(framelane_consumer_get_stats(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_consumer_get_stats");
  expect(framelane_consumer_transport(NULL) != NULL, "framelane_consumer_transport");
  expect(framelane_consumer_transport_reason(NULL, NULL, 0) == 0, "framelane_consumer_transport_reason");
  expect(framelane_consumer_descriptor(NULL) != NULL, "framelane_consumer_descriptor");
}

static void client_without_handle(void) {
  framelane_rpc_settings_init(NULL, 0);
  expect(framelane_client_open(NULL, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_client_open");
  framelane_client_close(NULL);
  expect(framelane_client_connect(NULL, 0) == FRAMELANE_INVALID_ARGUMENT, "framelane_client_connect");
  expect(framelane_client_call(NULL, NULL, 0, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_client_call");
  expect(framelane_client_call_loan(NULL, NULL, 0, 0, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_client_call_loan");
  expect(framelane_client_start(NULL, NULL, 0, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_client_start");
  expect(framelane_client_start_loan(NULL, NULL, 0, 0, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_client_start_loan");
  expect(framelane_client_loan(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_client_loan");
  expect(framelane_client_reserve(NULL, 0) == FRAMELANE_INVALID_ARGUMENT, "framelane_client_reserve");
  framelane_client_interrupt(NULL);
  framelane_client_resume(NULL);
  expect(framelane_client_get_stats(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_client_get_stats");
  expect(framelane_client_connected(NULL) == 0, "framelane_client_connected");
  expect(framelane_call_wait(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_call_wait");
  expect(framelane_call_pending(NULL) == 0, "framelane_call_pending");
  framelane_call_free(NULL);
  expect(framelane_response_ref(NULL) == NULL, "framelane_response_ref");
  framelane_response_unref(NULL);
  expect(framelane_response_data(NULL) == NULL, "framelane_response_data");
  expect(framelane_response_size(NULL) == 0, "framelane_response_size");
  expect(framelane_response_is_copy(NULL) == 0, "framelane_response_is_copy");
}

static void server_without_handle(void) {
  expect(framelane_server_open(NULL, NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_server_open");
  framelane_server_close(NULL);
  expect(framelane_server_next(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_server_next");
  expect(framelane_server_reserve(NULL, 0) == FRAMELANE_INVALID_ARGUMENT, "framelane_server_reserve");
  framelane_server_interrupt(NULL);
  framelane_server_resume(NULL);
  expect(framelane_server_get_stats(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_server_get_stats");
  expect(framelane_request_data(NULL) == NULL, "framelane_request_data");
  expect(framelane_request_size(NULL) == 0, "framelane_request_size");
  expect(framelane_request_deadline(NULL) == FRAMELANE_NO_CLOCK_TIME, "framelane_request_deadline");
  expect(framelane_request_cancelled(NULL) == 0, "framelane_request_cancelled");
  expect(framelane_request_answered(NULL) == 0, "framelane_request_answered");
  expect(framelane_request_respond(NULL, NULL, 0) == FRAMELANE_INVALID_ARGUMENT, "framelane_request_respond");
  expect(framelane_request_loan(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_request_loan");
  expect(framelane_request_respond_loan(NULL, NULL, 0) == FRAMELANE_INVALID_ARGUMENT, "framelane_request_respond_loan");
  expect(framelane_request_respond_error(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_request_respond_error");
  framelane_request_free(NULL);
}

static void observer_without_handle(void) {
  expect(framelane_find_lanes(NULL, NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_find_lanes");
  expect(framelane_lane_state_name(0) != NULL, "framelane_lane_state_name");
  expect(framelane_observer_open(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_observer_open");
  framelane_observer_close(NULL);
  expect(framelane_observer_ask(NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_observer_ask");
  expect(framelane_observer_stats(NULL, 0, NULL, NULL, 0) == FRAMELANE_INVALID_ARGUMENT, "framelane_observer_stats");
}

static void descriptor_without_handle(void) {
  expect(framelane_descriptor_parse(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_descriptor_parse");
  expect(framelane_descriptor_from_addresses(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_descriptor_from_addresses");
  framelane_descriptor_free(NULL);
  expect(framelane_descriptor_text(NULL) != NULL, "framelane_descriptor_text");
  expect(framelane_descriptor_name(NULL) != NULL, "framelane_descriptor_name");
  expect(framelane_descriptor_num_addresses(NULL) == 0, "framelane_descriptor_num_addresses");
  expect(framelane_descriptor_get_address(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_descriptor_get_address");
  expect(framelane_descriptor_socket_path(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_descriptor_socket_path");
  expect(framelane_runtime_dir(NULL, 0) > 0, "framelane_runtime_dir");
}

static void format_without_handle(void) {
  expect(framelane_format_parse(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_format_parse");
  expect(framelane_format_from_video(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_format_from_video");
  expect(framelane_format_from_audio(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_format_from_audio");
  expect(framelane_format_from_tensors(NULL, 0, 0, 0, NULL) == FRAMELANE_INVALID_ARGUMENT,
         "framelane_format_from_tensors");
  expect(framelane_format_ref(NULL) == NULL, "framelane_format_ref");
  framelane_format_unref(NULL);
  expect(framelane_format_kind(NULL) == 0, "framelane_format_kind");
  expect(framelane_format_caps(NULL) != NULL, "framelane_format_caps");
  expect(framelane_format_frame_size(NULL) == 0, "framelane_format_frame_size");
  expect(framelane_format_frame_rate(NULL) <= 0, "framelane_format_frame_rate");
  expect(framelane_format_get_video(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_format_get_video");
  expect(framelane_format_get_audio(NULL, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_format_get_audio");
  expect(framelane_format_num_tensors(NULL) == 0, "framelane_format_num_tensors");
  expect(framelane_format_get_tensor(NULL, 0, NULL) == FRAMELANE_INVALID_ARGUMENT, "framelane_format_get_tensor");
  expect(framelane_tensor_type_name(0) != NULL, "framelane_tensor_type_name");
  expect(framelane_tensor_type_size(0) == 4, "framelane_tensor_type_size");
  expect(framelane_tensor_type_of(NULL) == -1, "framelane_tensor_type_of");
}

int main(void) {
  frame_without_handle();
  producer_without_handle();
  consumer_without_handle();
  client_without_handle();
  server_without_handle();
  observer_without_handle();
  descriptor_without_handle();
  format_without_handle();
  library_without_handle();
  return failures == 0 ? 0 : 1;
}
