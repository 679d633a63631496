-- Remove texts that earlier versions let Dagster store: messages of runs, errors with their stack traces, figures of steps, and where
-- output was captured. They may name documents. Runs, states of partitions and their figures stay.
DO $$
BEGIN
    IF to_regclass('dagster.event_logs') IS NOT NULL THEN
        DELETE FROM dagster.event_logs
        WHERE
            dagster_event_type IS NULL
            OR dagster_event_type IN (
                'STEP_FAILURE', 'STEP_UP_FOR_RETRY', 'PIPELINE_FAILURE', 'ENGINE_EVENT', 'LOGS_CAPTURED', 'STEP_OUTPUT',
                'HANDLED_OUTPUT'
            );
    END IF;
    IF to_regclass('dagster.job_ticks') IS NOT NULL THEN
        DELETE FROM dagster.job_ticks WHERE status = 'FAILURE';
    END IF;
END
$$;
