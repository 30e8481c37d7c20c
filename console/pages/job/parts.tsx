/** The parts of a job that its list and its page share. */
import type { JobSummary } from '../../../src/view/job.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Button } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'

interface CancelJobProps {
  readonly job: Pick<JobSummary, 'id' | 'name' | 'endedAt'> & { readonly cancelRequestedAt?: string | null }
}

export function CancelJob({ job }: CancelJobProps) {
  const disabledReason = useMay('compute:write') ? undefined : missingScope('compute:write')
  const dialog = useDialog()
  if (job.endedAt !== null) return null
  const isCancelled = (job.cancelRequestedAt ?? null) !== null
  const cancel = (): void =>
    dialog.open((close) => (
      <ConfirmCall
        title="Cancel this job?"
        action="Cancel job"
        operation="cancelJob"
        input={{ params: { id: job.id } }}
        refreshes={['listJobs', 'getJob', 'listJobTasks']}
        done="The job is being cancelled"
        onClose={close}
      >
        Its commands get SIGTERM and ten seconds to end. Their output is kept.
      </ConfirmCall>
    ))
  return (
    <>
      <Button
        aria-label={`Cancel ${job.name ?? job.id}`}
        disabled={isCancelled}
        disabledReason={disabledReason}
        onClick={cancel}
      >
        Cancel
      </Button>
      {dialog.shown}
    </>
  )
}
