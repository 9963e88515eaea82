(* Attempts 1 and 2 have one token. Attempt 1 is granted 1. The request of attempt 2 finds its token, and is answered
   1. *)
Definition events : script := [
  (Some (1, 1), key 1 1); (Some (2, 1), key 1 1)].

Theorem opposite : breaks fences_unique (one_node (fun _ => 1) (each 0 0 0) (each 1 2 9) events).
Proof.
  begin_run.
  - destruct i as [| [| i]]; simpl.
    + by rule (grant _ _ 1 0 1).
    + by rule (again _ _ 2 1).
    + apply nothing.
  - intro X. specialize (X 1 2 1). discriminate X; [said_at 0 | said_at 1].
Qed.
