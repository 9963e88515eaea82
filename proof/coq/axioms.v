(* What the main theorems rest on, besides their own assumptions: of Coq's library, the axioms of the real numbers,
   where there are times; and nothing else. The test holds what this prints against that list. *)
Require Import quorum fences fence_witness lease lease_witness.

Definition about_quorums := (quorums_meet, neighbours_meet, quorums_of_either_meet,
  two_steps_are_apart, two_more_are_apart).

Definition about_fences := (a_fence_is_a_number, a_block_is_numbers, numbers_are_unique, numbers_are_in_order,
  fences_are_unique, fences_are_in_order, fences_of_one_set, fences_of_neighbours, fences_have_a_run).

Definition about_leases := (leases_do_exclude, locks_do_exclude, leases_of_one_set_exclude,
  leases_of_neighbours_exclude, leases_have_a_run, shared_holders_have_a_run).

Print Assumptions about_quorums.
Print Assumptions about_fences.
Print Assumptions about_leases.
