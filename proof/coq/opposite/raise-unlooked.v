(* Attempt 1 is granted 1. A raise to 1 for attempt 2 is answered, although the key is that of 1. *)
Definition events : script := [
  (Some (1, 1), key 1 1); (Some (2, 1), key 1 1)].

Theorem opposite : breaks fences_unique (one_node own (each 0 1 9) (each 1 2 9) events).
Proof.
  begin_run.
  - destruct i as [| [| i]]; simpl.
    + by rule (grant _ _ 1 0 1).
    + by rule (raise _ _ 2 (Some 1) 1 1).
    + apply nothing.
  - intro X. specialize (X 1 2 1). discriminate X; [said_at 0 | said_at 1].
Qed.
