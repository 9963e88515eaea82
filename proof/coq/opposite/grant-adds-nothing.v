(* Attempt 1 is granted 0, its key goes, and attempt 2 is granted 0. *)
Definition events : script := [
  (Some (1, 0), key 1 0); (None, free 0); (Some (2, 0), key 2 0)].

Theorem opposite : breaks fences_unique (one_node own (each 0 2 9) (each 1 3 9) events).
Proof.
  begin_run.
  - destruct i as [| [| [| i]]]; simpl.
    + by rule (grant _ _ 1 0 0).
    + by rule (clear _ _ (Some 1) 0).
    + by rule (grant _ _ 2 0 0).
    + apply nothing.
  - intro X. specialize (X 1 2 0). discriminate X; [said_at 0 | said_at 2].
Qed.
