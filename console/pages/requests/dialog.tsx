/** One request, with its texts if the account stores them. */
import { ApiError } from '../../../src/client/error.ts'
import { localTime } from '../../../src/view/time.ts'
import { duration, protocolOf, requestUsage } from '../../../src/view/request.ts'
import { useMe, mayUse } from '../../api/me.ts'
import { useAction, useCall } from '../../api/query.ts'
import { Answer } from '../../ui/answer.tsx'
import { Button } from '../../ui/button.tsx'
import { Facts } from '../../ui/card.tsx'
import { CodeBlock, CopyLine } from '../../ui/copy.tsx'
import { Dialog, useDialogBusy } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Money } from '../../ui/money.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'
import { toast } from '../../ui/toast.tsx'
import { OutcomeBadge, type LoggedRequest } from './cells.tsx'

export function RequestDialog({ id, onClose }: { id: string; onClose: () => void }) {
  const request = useCall('getInferenceRequest', { params: { id } })
  const isMissing = request.error instanceof ApiError && request.error.status === 404
  return (
    <Dialog title="Request" onClose={onClose} wide>
      {isMissing ? (
        <p className="text-sm text-muted">Request not found in this account, or not in the log yet.</p>
      ) : (
        <Answer of={request} skeleton={<Skeleton rows={9} />}>
          {(one) => (
            <div className="flex flex-col gap-4">
              <CopyLine text={one.requestId} label="Request ID" />
              <RequestFacts request={one} />
              <Texts requestBody={one.requestBody} responseBody={one.responseBody} />
            </div>
          )}
        </Answer>
      )}
    </Dialog>
  )
}

function RequestFacts({ request }: { request: LoggedRequest }) {
  const { at, model, reason, streamed, firstByteMs, totalMs, costUsd, keyId, traceId, status } = request
  return (
    <Facts
      facts={[
        ['Time', localTime(at)],
        ['Model', model],
        ['Protocol', `${protocolOf(request)}${streamed ? ', streamed' : ''}`],
        ['Outcome', <OutcomeBadge key="outcome" request={request} />],
        ['Reason', reason],
        ['HTTP status', status],
        ['Usage', requestUsage(request)],
        ['First byte', firstByteMs === null ? 'None' : `after ${duration(firstByteMs)}`],
        ['Duration', duration(totalMs)],
        ['Cost', <Money key="cost" usd={costUsd} />],
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
        <h3 className="mb-1 text-sm font-medium">Request</h3>
        <CodeBlock code={readable(requestBody)} label="Request body" />
      </section>
      <section>
        <h3 className="mb-1 text-sm font-medium">Response</h3>
        <CodeBlock code={readable(responseBody)} label="Response body" />
      </section>
    </>
  )
}

/** JSON is indented; streams and other bodies stay as they are. */
function readable(body: string | null): string {
  if (body === null) return 'Not stored.'
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
    return <p className="text-sm text-muted">The texts of this request were not stored, or were deleted.</p>
  }
  return (
    <div className="flex flex-col gap-2 rounded-md bg-sunken p-3 text-sm">
      <p>
        This account does not store request and response texts. Stored texts are encrypted and readable only with keys
        of this account that have the scope <code className="font-mono">inference</code>.
      </p>
      {isOwner ? (
        <div>
          <Button
            busy={keep.isPending}
            onClick={() =>
              keep.mutate({ body: { keepsBodies: true } }, { onSuccess: () => toast('Request texts are now stored') })
            }
          >
            Store texts from now on
          </Button>
        </div>
      ) : (
        <p className="text-muted">An account owner with a key that has the scope keys can change this.</p>
      )}
      {keep.error !== null && <ErrorNotice error={keep.error} />}
    </div>
  )
}
