/** One request, with its texts where the account keeps them, and the way to keep them where it does not. */
import { ApiError } from '../../../src/client/error.ts'
import { localTime } from '../../../src/view/time.ts'
import { money } from '../../../src/view/money.ts'
import { duration, operationLabel, requestUsage } from '../../../src/view/request.ts'
import { useMe, mayUse } from '../../api/me.ts'
import { useAction, useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Facts } from '../../ui/card.tsx'
import { CodeBlock, CopyLine } from '../../ui/copy.tsx'
import { Dialog, useDialogBusy } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'
import { OutcomeBadge, type LoggedRequest } from './cells.tsx'

export function RequestDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const request = useCall('getInferenceRequest', { params: { id } })
  const isMissing = request.error instanceof ApiError && request.error.status === 404
  return (
    <Dialog title="Request" onClose={onClose} wide>
      {isMissing ? (
        <p className="text-sm text-muted">There is no such request in this account, or it is not in the log yet.</p>
      ) : (
        <Answer of={request} skeleton={<Skeleton rows={9} />}>
          {(found) => (
            <div className="flex flex-col gap-4">
              <CopyLine text={found.requestId} label="Request id" />
              <RequestFacts request={found} />
              <Texts requestBody={found.requestBody} responseBody={found.responseBody} />
            </div>
          )}
        </Answer>
      )}
    </Dialog>
  )
}

function RequestFacts({ request }: { request: LoggedRequest }) {
  const { at, model, operation, reason, streamed, firstByteMs, totalMs, costUsd, keyId, traceId, status } = request
  return (
    <Facts
      facts={[
        ['Time', localTime(at)],
        ['Model', model],
        ['Kind', `${operationLabel(operation)}${streamed ? ', streamed' : ''}`],
        ['Outcome', <OutcomeBadge key="outcome" request={request} />],
        ...(reason === null ? [] : [['Reason', reason] as const]),
        ['HTTP status', status],
        ['Used', requestUsage(request)],
        ['First byte', firstByteMs === null ? 'none came' : `after ${duration(firstByteMs)}`],
        ['Duration', duration(totalMs)],
        ['Cost', money(costUsd)],
        ['Key', <code key="key">{keyId}</code>],
        ['Trace', <code key="trace">{traceId}</code>],
      ]}
    />
  )
}

interface TextsProps {
  readonly requestBody: string | null
  readonly responseBody: string | null
}

function Texts({ requestBody, responseBody }: TextsProps) {
  if (requestBody === null && responseBody === null) return <NoTexts />
  return (
    <>
      <section>
        <h3 className="mb-1 text-sm font-medium">Asked</h3>
        <CodeBlock code={readable(requestBody)} label="What was asked" />
      </section>
      <section>
        <h3 className="mb-1 text-sm font-medium">Answered</h3>
        <CodeBlock code={readable(responseBody)} label="What was answered" />
      </section>
    </>
  )
}

/** JSON with its lines; a stream and whatever else as it is. */
function readable(body: string | null): string {
  if (body === null) return 'Not kept.'
  try {
    return JSON.stringify(JSON.parse(body), null, 2)
  } catch {
    return body
  }
}

function NoTexts() {
  const me = useMe()
  const keep = useAction('changeAccountSettings', ['getMe'])
  useDialogBusy(keep.isPending)
  const isOwner = me.role === 'owner' && mayUse(me, 'keys')
  if (me.account.keepsBodies) {
    return <p className="text-sm text-muted">The texts of this request were not kept, or have been deleted since.</p>
  }
  return (
    <div className="flex flex-col gap-2 rounded-md bg-sunken p-3 text-sm">
      <p>
        This account keeps no texts, so nobody can read here what was asked and answered. Kept texts are sealed, and
        only keys of the account with the scope <code className="font-mono">inference</code> can read them.
      </p>
      {isOwner ? (
        <div>
          <Button
            busy={keep.isPending}
            onClick={() =>
              keep.mutate(
                { body: { keepsBodies: true } },
                { onSuccess: () => toast('Texts of requests are kept from now on.') },
              )
            }
          >
            Keep texts from now on
          </Button>
        </div>
      ) : (
        <p className="text-muted">An owner of the account can change that, with a key that has the scope keys.</p>
      )}
      {keep.error !== null && <ErrorNotice error={keep.error} />}
    </div>
  )
}
