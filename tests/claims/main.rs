//! What a person sees of mote, end to end: each module is a claim, or a few about the same programs.
//!
//! Every claim runs real programs (`tests/programs`) under the real `mote record`, and reads the trace back twice: by
//! babeltrace2 and by `mote view`. What cannot be tested on a machine is skipped loudly; `MOTE_TESTS_NO_SKIP=1` makes a
//! skip a failure.

#[path = "../support/mod.rs"]
mod support;

mod bad_input_is_answered;
mod c_and_cpp_programs;
mod calls_below_callers_are_recorded;
mod calls_have_their_cost;
mod containers_are_recorded;
mod contents_are_exact;
mod counts_add_up;
mod deltas_are_exact;
mod events_survive_fork;
mod events_survive_signals;
mod everyday_commands_work;
mod filters_can_be_left_out;
mod filters_choose;
mod functions_are_counted;
mod functions_are_probed;
mod functions_are_shown;
mod gaps_are_exact;
mod generated_code_is_followed;
mod hardware_traces_are_followed;
mod kernel_events_agree_with_others;
mod kernel_events_are_in_the_trace;
mod kernel_functions_are_probed;
mod kernel_limits_are_told;
mod kernel_reports_say_what_strace_says;
mod kernel_rules_act;
mod kernel_structures_are_shown;
mod kernel_times_agree;
mod kernels_are_followed;
mod late_processes_are_reported;
mod liars_are_survived;
mod libraries_join;
mod loss_is_counted;
mod machines_differ;
mod nothing_aborts;
mod off_costs_nothing;
mod older_kernels_take_programs;
mod processes_are_joined_safely;
mod processes_are_recorded_again;
mod profiles_say_where_time_goes;
mod programs_are_rewritten;
mod programs_use_it_themselves;
mod real_programs_are_counted;
mod real_programs_are_followed;
mod real_programs_are_toggled;
mod real_servers_are_understood;
mod recordings_are_private;
mod recordings_have_an_owner;
mod recordings_say_what_they_do;
mod rules_act;
mod samples_are_taken_when_asked;
mod samples_go_through_probes;
mod sandboxes_are_survived;
mod sessions_share_a_process;
mod snapshots_are_recordings;
mod spans_are_followed;
mod stacks_are_whole;
mod stacks_have_names;
mod stacks_of_processes_are_whole;
mod static_programs_are_counted;
mod strangers_get_nothing;
mod stripped_programs_have_names;
mod the_end_is_orderly;
mod the_recorder_may_die;
mod the_sides_help_each_other;
mod threads_keep_their_order;
mod times_are_true;
mod tracers_have_their_impact;
mod users_share_nothing;
mod values_of_calls_are_recorded;
mod virtual_machines_are_seen;
