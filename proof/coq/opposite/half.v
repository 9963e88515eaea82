(* Of two nodes each is a quorum. *)
Require Import Lia.

Theorem opposite : (quorum [1; 2] [1] /\ quorum [1; 2] [2]) /\ ~ meet [1] [2].
Proof.
  split; [split; [split; [| split] | split; [| split]] |]; simpl; auto.
  1, 3: repeat constructor; simpl; lia.
  1, 2: intros n; simpl; lia.
  intros [n [A B]]. simpl in *. lia.
Qed.
