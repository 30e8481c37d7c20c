/** The output of a task: its result and its files. */
import { routes } from '../../../src/contract/routes.ts'
import type { Job, JobTask } from '../../../src/view/job.ts'
import { fileSize, number } from '../../../src/view/number.ts'
import { textColumn, type Columns } from '../../list/column.tsx'
import { Section } from '../../ui/card.tsx'
import { DownloadLink } from '../../ui/download-link.tsx'
import { Empty } from '../../ui/empty.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Table } from '../../ui/table.tsx'

/** Shows the output of the task's last attempt that has any. */
export function Output({ job, task }: { job: Job; task: JobTask }) {
  const attempt = task.attempts.findLast(({ output }) => output !== null)
  if (attempt === undefined || attempt.output === null) return null
  const { output, result, number: attemptNumber, outputExpiresAt } = attempt
  if (output.fileCount === 0 && result === null && output.problem === null) return null
  const query = { index: String(task.index), attempt: String(attemptNumber) }
  const archive = `${job.name ?? job.id}-${task.index}.tar`
  return (
    <Section
      title="Output"
      actions={
        outputExpiresAt !== null && (
          <DownloadLink href={outputUrl(job.id, query)} file={archive}>
            Download all
          </DownloadLink>
        )
      }
    >
      {output.problem !== null && <Notice tone="warn">The files were not kept: {output.problem}.</Notice>}
      {result !== null && (
        <pre aria-label="Result" tabIndex={0} className="max-h-80 overflow-auto rounded-md bg-sunken p-3 text-sm">
          {JSON.stringify(result, null, 2)}
        </pre>
      )}
      <Table
        label="Files"
        columns={filesOf(job.id, query, outputExpiresAt !== null)}
        rows={output.files}
        rowKey="path"
        empty={<Empty title="No files" />}
      />
      {output.fileCount > output.files.length && (
        <p className="text-sm text-muted">{number(output.fileCount - output.files.length)} more are in the archive.</p>
      )}
    </Section>
  )
}

type OutputFile = NonNullable<JobTask['attempts'][number]['output']>['files'][number]

function filesOf(id: string, query: Readonly<Record<string, string>>, isKept: boolean): Columns<OutputFile> {
  return [
    textColumn('File', ({ path }) =>
      isKept ? (
        <a
          href={outputUrl(id, { ...query, path })}
          download={path.slice(path.lastIndexOf('/') + 1)}
          className="font-mono font-medium break-all text-accent underline-offset-2 hover:underline"
        >
          {path}
        </a>
      ) : (
        path
      ),
    ),
    textColumn('Size', ({ bytes }) => fileSize(bytes), { align: 'right' }),
  ]
}

function outputUrl(id: string, query: Readonly<Record<string, string>>): string {
  const path = routes.downloadJobOutput.path.replace('{id}', encodeURIComponent(id))
  return `${path}?${new URLSearchParams(query).toString()}`
}
