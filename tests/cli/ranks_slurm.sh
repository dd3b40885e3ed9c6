#!/bin/sh
# ranks_slurm.sh - the scripts of examples/slurm under a real Slurm, started here for the test: a run that is signalled to
# stop, requeues itself and resumes; tasks that MPI does not see are refused. Skipped visibly where Slurm cannot be
# started.
. "$(dirname -- "$0")/lib.sh"
. "$here/ranks_lib.sh"
skip() { echo "SKIPPED: $*"; exit 77; }
need_mpirun
for program in munged slurmctld slurmd srun sbatch; do
    command -v $program >/dev/null || [ -x /usr/sbin/$program ] || skip "no $program (apt-get install slurm-wlm munge)"
done
[ "$(id -u)" = 0 ] || skip "Slurm's daemons want root"
PATH=$PATH:/usr/sbin

# --- a cluster of this machine -------------------------------------------------------------------
host=$(hostname -s)
port=$((20000 + $$ % 10000))
head -c 128 /dev/urandom >munge.key
chmod 400 munge.key
chmod 755 "$work"
cat >slurm.conf <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=$port
SlurmdPort=$((port + 1))
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket
CredType=cred/munge
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
CONF
mkdir state spool
SLURM_CONF=$work/slurm.conf
export SLURM_CONF
stop_all() {
    scancel -u root 2>/dev/null || :
    for f in slurmd slurmctld munged; do [ ! -s $f.pid ] || kill "$(cat $f.pid)" 2>/dev/null || :; done
    for f in slurmd slurmctld munged; do
        while [ -s $f.pid ] && kill -0 "$(cat $f.pid)" 2>/dev/null; do sleep 0.1; done
    done
    rm -rf "$work"
}
trap stop_all EXIT
munged --force --key-file=$work/munge.key --socket=$work/munge.socket --pid-file=$work/munged.pid --log-file=$work/munged.log \
    --seed-file=$work/munge.seed >out 2>&1 || skip "munged does not start here: $(head -1 out)"
slurmctld >out 2>&1 || skip "slurmctld does not start here: $(head -1 out)"
slurmd -N "$host" >out 2>&1 || skip "slurmd does not start here: $(head -1 out)"
tries=0
until sinfo -h -o %T 2>/dev/null | grep -q idle; do
    [ $((tries += 1)) -lt 150 ] || skip "no node of Slurm's comes up here: $(tail -3 slurmctld.log slurmd.log 2>/dev/null)"
    sleep 0.1
done
ended() {   # ended JOB : waits for a job to leave the queue
    tries=0
    while squeue -h -j "$1" 2>/dev/null | grep -q .; do
        case $(squeue -h -o %T-%R -j "$1" 2>/dev/null) in
            # Slurm delays a requeued job by two minutes. Start it once all of its old processes are gone: its steps have
            # the same numbers, so cleaning up the old ones would end the new.
            PENDING*BeginTime*) pgrep slurmstepd >/dev/null || scontrol update job="$1" StartTime=now || :;;
        esac
        [ $((tries += 1)) -lt 600 ] || { cat "slurm-$1.out"; fail "job $1 does not end: $(squeue -h -j "$1")"; }
        sleep 0.1
    done
}

# --- tasks that MPI does not see -----------------------------------------------------------------
pack
train="train tiny.gan --data x=s.pack --batch 40 --seed 3 --device ref --precision f64"
code=0
srun -n 2 --mpi=none "$ganrun" $train --steps 2 --out alone >out 2>err || code=$?
[ $code = 3 ] || fail "singletons under srun: exit code $code, not 3"
says 'each would train alone'
absent alone
srun --mpi=list 2>&1 | grep -q pmix || skip "this Slurm has no pmix"

# --- the example: signalled to stop, it saves, requeues itself and equals an uninterrupted run -----
expect 0 $train --steps 1000 --save-every 500 --out whole
GANRUN=$ganrun sbatch --parsable --ntasks 2 --open-mode=append "$here/../../examples/slurm/train.sbatch" \
    tiny.gan --data x=s.pack --batch 40 --seed 3 --device ref --precision f64 --steps 1000 --save-every 500 --out run >job
job=$(cat job)
tries=0
until [ "$(losses run 2>/dev/null | wc -l)" -ge 12 ]; do
    [ $((tries += 1)) -lt 600 ] || { cat "slurm-$job.out" err; fail "the job does not begin: $(tail -3 slurmctld.log)"; }
    sleep 0.1
done
scancel --signal=USR1 "$job"
ended "$job"
cp "slurm-$job.out" err
says 'stopped after step [0-9]*, which is saved'
says 'resumed from step [1-9]'
close_to whole run
