(* Attempts 1 and 2 are granted 1 and 2. A late repair of 1 sets the counter back to 1, and attempt 3 is granted 2. *)
Definition events : script := [
  (Some (1, 1), key 1 1); (None, free 1); (Some (2, 2), key 2 2); (None, free 2);
  (None, key 1 1); (None, free 1); (Some (3, 2), key 3 2)].

Theorem opposite : breaks fences_unique (one_node own (each 0 2 6) (each 1 3 7) events).
Proof.
  begin_run.
  - destruct i as [| [| [| [| [| [| [| i]]]]]]]; simpl.
    + by rule (grant _ _ 1 0 1).
    + by rule (clear _ _ (Some 1) 1).
    + by rule (grant _ _ 2 1 2).
    + by rule (clear _ _ (Some 2) 2).
    + by rule (repair _ _ 1 2 1).
    + by rule (clear _ _ (Some 1) 1).
    + by rule (grant _ _ 3 1 2).
    + apply nothing.
  - intro X. specialize (X 2 3 2). discriminate X; [said_at 2 | said_at 6].
Qed.
