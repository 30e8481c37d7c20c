/** The dialog that orders a job. */
import { useNavigate } from '@tanstack/react-router'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { isJson, jobFields } from './fields.ts'

export function RunDialog({ onClose }: { onClose: () => void }) {
  const navigate = useNavigate()
  return (
    <FieldDialog
      operation="createJob"
      title="Run a job"
      action="Run"
      wide
      fields={jobFields}
      initial={{ image: '', input: '' }}
      refreshes={['listJobs']}
      check={({ input }) => ({ input: isJson(input) ? undefined : 'Must be JSON, such as {"epochs": 3}' })}
      done="Job created"
      onDone={({ id }) => {
        onClose()
        void navigate({ to: '/jobs/$id', params: { id } })
      }}
      onClose={onClose}
    >
      <p className="text-sm text-muted">
        What the command writes to <code className="font-mono">/berth/output</code> is kept for 30 days. The job waits
        until a machine is free, and you pay while the command runs.
      </p>
    </FieldDialog>
  )
}
