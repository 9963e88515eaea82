(* How a run of the rules of fences is written down: for each node a list of what happens to it. This is for
   fence_controls.txt, which has runs under rules that are broken. *)
Require Import List Arith Lia.
Require Import sets quorum fence_rules.
Import ListNotations.

(* An answer, or none, and the state after it. *)
Definition script := list (option (attempt * nat) * node_state).

Fixpoint answer_of (s : script) (i : nat) : option (attempt * nat) :=
  match s with
  | [] => None
  | (said, _) :: rest => match i with 0 => said | S i => answer_of rest i end
  end.

Fixpoint state_of (last : node_state) (s : script) (i : nat) : node_state :=
  match s with
  | [] => last
  | (_, next) :: rest => match i with 0 => last | S i => state_of next rest i end
  end.

Definition key (t : token) (c : nat) : node_state := {| L := Some t; C := c |}.
Definition free (c : nat) : node_state := {| L := None; C := c |}.

(* One node, the node 1, is a whole set. *)
Definition one_node (token_of start success : attempt -> nat) (s : script) : world := {|
  counted := fun q => q = [1];
  token_of := token_of; start := start; success := success;
  state := fun i n => state_of (free 0) (if n =? 1 then s else []) i;
  answer := fun i n => answer_of (if n =? 1 then s else []) i
|}.

(* Three nodes, the nodes 1, 2 and 3. All attempts begin at once. *)
Definition three_nodes (success : attempt -> nat) (s1 s2 s3 : script) : world := {|
  counted := quorum [1; 2; 3];
  token_of := fun a => a; start := fun _ => 0; success := success;
  state := fun i n => state_of (free 0) (match n with 1 => s1 | 2 => s2 | 3 => s3 | _ => [] end) i;
  answer := fun i n => answer_of (match n with 1 => s1 | 2 => s2 | 3 => s3 | _ => [] end) i
|}.

Definition own (a : attempt) : token := a.

(* The numbers x, y, z for the attempts 1, 2, 3. *)
Definition each (x y z : nat) (a : attempt) : nat := match a with 1 => x | 2 => y | _ => z end.

Lemma one_node_meets : any_two_meet (fun q => q = [1]).
Proof. intros p q -> ->. exists 1. simpl. auto. Qed.

Lemma three_nodes_meet : any_two_meet (quorum [1; 2; 3]).
Proof. apply quorums_meet. Qed.

(* What a run under broken rules shows: all that is assumed holds, and a claim does not. *)
Definition breaks (claim : world -> Prop) (w : world) : Prop :=
  any_two_meet (counted w) /\ lawful w /\ ~ claim w.

(* A step is by a rule; what the rule asks for are facts about numbers. *)
Tactic Notation "by" "rule" uconstr(r) := first [refine r | refine (r _); simpl; lia].

(* All assumptions but that about steps, which is left for the nodes that there are. *)
Ltac begin_run :=
  unfold breaks, one_node, three_nodes, own, each;
  split; [first [apply one_node_meets | apply three_nodes_meet] |]; split;
  [constructor; simpl;
    [intros i n; destruct n as [| [| [| [| n]]]]; simpl; try apply nothing
    | try (intros; auto; lia)
    | intros a n; destruct n as [| [| [| [| n]]]]; destruct a as [| [| [| a]]]; simpl; discriminate] |].

(* Attempt a has the fence f: node 1 has said so at instant i. *)
Ltac said_at i := exists [1]; split; [reflexivity | intros n [<- | []]; exists i; simpl; repeat split; try lia].
