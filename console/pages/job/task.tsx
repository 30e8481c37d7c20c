/** One task: the live log of its command, its output, and its attempts. */
import { attemptEnd, outputText, type Job, type JobAttempt, type JobTask } from '../../../src/view/job.ts'
import { moneyColumn, numberColumn, textColumn, timeColumn, type Columns } from '../../list/column.tsx'
import { TextLink } from '../../ui/button.tsx'
import { Section } from '../../ui/card.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Table } from '../../ui/table.tsx'
import { RentalLogs } from '../rental/logs.tsx'
import { Output } from './output.tsx'

export function TaskDetails({ job, task }: { job: Job; task: JobTask }) {
  const last = task.attempts.at(-1)
  return (
    <>
      <Output job={job} task={task} />
      {last !== undefined && last.startedAt !== null && (
        <Section title={task.attempts.length === 1 ? 'Log' : `Log of attempt ${last.number}`}>
          <RentalLogs key={last.rentalId} id={String(last.rentalId)} />
        </Section>
      )}
      <Section title="Attempts">
        <Table
          label="Attempts"
          columns={columns}
          rows={task.attempts}
          rowKey={(attempt) => String(attempt.number)}
          empty={<Empty title="Not started yet" />}
        />
      </Section>
    </>
  )
}

const columns: Columns<JobAttempt> = [
  textColumn('Attempt', 'number'),
  textColumn('Machine', ({ machineId, rentalId }) => (
    <TextLink to="/rentals/$id" params={{ id: String(rentalId) }}>
      {machineId}
    </TextLink>
  )),
  textColumn('End', attemptEnd),
  numberColumn('Exit code', 'exitCode'),
  moneyColumn('Cost', 'costUsd'),
  textColumn('Output', (attempt) => outputText(attempt) ?? null, { wideOnly: true }),
  timeColumn('Started', 'startedAt', { wideOnly: true }),
]
