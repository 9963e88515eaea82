(* What each main theorem rests on, besides its own assumptions: of Coq's library, the axioms of the real numbers, where
   there are times; and nothing else. The test holds what this prints against that list. *)
Require Import quorum fences fence_witness lease lease_witness.

Print Assumptions quorums_meet.
Print Assumptions neighbours_meet.
Print Assumptions quorums_of_either_meet.
Print Assumptions two_steps_are_apart.
Print Assumptions two_more_are_apart.
Print Assumptions a_fence_is_a_number.
Print Assumptions numbers_are_unique.
Print Assumptions numbers_are_in_order.
Print Assumptions fences_are_unique.
Print Assumptions fences_are_in_order.
Print Assumptions fences_of_one_set.
Print Assumptions fences_of_neighbours.
Print Assumptions fences_have_a_run.
Print Assumptions leases_do_exclude.
Print Assumptions locks_do_exclude.
Print Assumptions leases_of_one_set_exclude.
Print Assumptions leases_of_neighbours_exclude.
Print Assumptions leases_have_a_run.
