/** The buttons of a batch, in the list and on its page. */
import { hasBatchEnded, type Batch } from '../../../src/view/batch.ts'
import { ConfirmCall } from '../../form/dialog.tsx'
import { Button } from '../../ui/button.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { DownloadLink } from '../../ui/download-link.tsx'

export function BatchActions({ batch }: { batch: Batch }) {
  const dialog = useDialog()
  const cancel = (): void =>
    dialog.open((close) => (
      <ConfirmCall
        title="Cancel this batch?"
        action="Cancel batch"
        operation="cancelBatch"
        input={{ params: { id: batch.id } }}
        refreshes={['listBatches', 'getBatch']}
        done="The batch is being cancelled"
        onClose={close}
      >
        Answers so far are kept and charged. The other lines are not run.
      </ConfirmCall>
    ))
  return (
    <>
      {!hasBatchEnded(batch) && (
        <Button aria-label={`Cancel ${batch.id}`} disabled={batch.status === 'cancelling'} onClick={cancel}>
          Cancel
        </Button>
      )}
      {batch.output_file_id !== null && (
        <DownloadLink href={contentUrl(batch.output_file_id)} file={`${batch.id}.output.jsonl`}>
          Answers
        </DownloadLink>
      )}
      {batch.error_file_id !== null && (
        <DownloadLink href={contentUrl(batch.error_file_id)} file={`${batch.id}.errors.jsonl`}>
          Errors
        </DownloadLink>
      )}
      {dialog.shown}
    </>
  )
}

export function contentUrl(fileId: string): string {
  return `/v1/files/${encodeURIComponent(fileId)}/content`
}
