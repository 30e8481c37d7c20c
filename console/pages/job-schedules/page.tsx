/** Schedules of jobs: list, create, pause, resume and delete. */
import type { Reply } from '../../../src/client/client.ts'
import { missingScope, useMay } from '../../api/me.ts'
import { CallButton, ConfirmCall } from '../../form/dialog.tsx'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { actionsColumn, textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { ListTable } from '../../list/table.tsx'
import { Badge } from '../../ui/badge.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Page } from '../../ui/page.tsx'
import { isJson, jobFields } from '../jobs/fields.ts'

type Schedule = Reply<'listJobSchedules'>['schedules'][number]

/** A run of a schedule raises no event. */
const EVERY_MS = 10_000

export function JobSchedulesPage() {
  const disabledReason = useMay('compute:write') ? undefined : missingScope('compute:write')
  const dialog = useDialog()
  const create = (
    <Button
      look="primary"
      disabledReason={disabledReason}
      onClick={() => dialog.open((close) => <ScheduleDialog onClose={close} />)}
    >
      Schedule a job
    </Button>
  )
  return (
    <Page
      intro="Jobs that run again and again. A time is left out while the job before has not ended."
      actions={create}
    >
      <ListTable
        label="Schedules"
        call="listJobSchedules"
        everyMs={EVERY_MS}
        rows={({ schedules }) => schedules}
        rowKey="id"
        columns={columns}
        empty={
          <Empty title="No schedules yet" action={create}>
            Run a job each night, each hour, or at any times that cron can express.
          </Empty>
        }
      />
      {dialog.shown}
    </Page>
  )
}

const columns: Columns<Schedule> = [
  textColumn('Schedule', ({ id, name }) => name ?? id, { className: 'break-all' }),
  textColumn('Times (UTC)', 'cron', { className: 'font-mono whitespace-nowrap' }),
  textColumn('Image', 'image', { className: 'break-all', wideOnly: true }),
  timeColumn('Next job', 'nextAt'),
  textColumn('Last job', (schedule) => <LastJob schedule={schedule} />),
  actionsColumn((schedule) => <ScheduleActions schedule={schedule} />),
]

function LastJob({ schedule: { lastAt, lastJobId, lastReason } }: { schedule: Schedule }) {
  if (lastAt === null) return '—'
  if (lastReason !== null) return <Badge tone="warn">{lastReason.replaceAll('_', ' ')}</Badge>
  if (lastJobId === null) return 'deleted'
  return (
    <TextLink to="/jobs/$id" params={{ id: lastJobId }}>
      Show
    </TextLink>
  )
}

function ScheduleActions({ schedule: { id, name, paused } }: { schedule: Schedule }) {
  const disabledReason = useMay('compute:write') ? undefined : missingScope('compute:write')
  const dialog = useDialog()
  const label = name ?? id
  const remove = (): void =>
    dialog.open((close) => (
      <ConfirmCall
        title={`Delete ${label}?`}
        action="Delete schedule"
        operation="deleteJobSchedule"
        input={{ params: { id } }}
        refreshes={['listJobSchedules']}
        done="Schedule deleted"
        onClose={close}
      >
        Its jobs and their results stay.
      </ConfirmCall>
    ))
  return (
    <>
      <CallButton
        operation="changeJobSchedule"
        input={{ params: { id }, body: { paused: !paused } }}
        refreshes={['listJobSchedules']}
        done={paused ? 'Resumed' : 'Paused'}
        aria-label={`${paused ? 'Resume' : 'Pause'} ${label}`}
        disabledReason={disabledReason}
      >
        {paused ? 'Resume' : 'Pause'}
      </CallButton>
      <Button aria-label={`Delete ${label}`} disabledReason={disabledReason} onClick={remove}>
        Delete
      </Button>
      {dialog.shown}
    </>
  )
}

function ScheduleDialog({ onClose }: { onClose: () => void }) {
  return (
    <FieldDialog
      operation="createJobSchedule"
      title="Schedule a job"
      action="Create schedule"
      wide
      fields={[['cron', { label: 'Times (UTC)', placeholder: '0 3 * * *' }], ...jobFields]}
      initial={{ image: '', input: '' }}
      refreshes={['listJobSchedules']}
      check={({ input }) => ({ input: isJson(input) ? undefined : 'Must be JSON, such as {"epochs": 3}' })}
      done="Schedule created"
      onClose={onClose}
    />
  )
}
