# ranks_env.sh - mpirun's settings in tests; sourced. $work: this test's folder.
OMPI_ALLOW_RUN_AS_ROOT=1                # tests may run as root, in a container
OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
OMPI_MCA_rmaps_base_oversubscribe=1     # more ranks than cores
OMPI_MCA_plm_rsh_agent=false            # this machine alone
OMPI_MCA_orte_tmpdir_base=$work         # concurrent jobs that share one delete each other's files
PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe    # the last three under Open MPI 5's names
PRTE_MCA_plm_ssh_agent=false
PRTE_MCA_prte_tmpdir_base=$work
export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe OMPI_MCA_plm_rsh_agent \
    OMPI_MCA_orte_tmpdir_base PRTE_MCA_rmaps_default_mapping_policy PRTE_MCA_plm_ssh_agent PRTE_MCA_prte_tmpdir_base
sanitized=${ASAN_OPTIONS+x}${TSAN_OPTIONS+x}     # a build of such a preset
# Open MPI unloads its plugins without freeing, so the address sanitizer cannot attribute their leaks to a suppression.
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
