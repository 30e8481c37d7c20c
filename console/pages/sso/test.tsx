/** A test of a provider: what can be checked from the server, and the sign-in that needs a browser. */
import { useEffect, useEffectEvent } from 'react'
import type { Reply } from '../../../src/client/client.ts'
import type { Tone } from '../../../src/view/tone.ts'
import { useAction, useCall } from '../../api/query.ts'
import { Badge } from '../../ui/badge.tsx'
import { Button } from '../../ui/button.tsx'
import { CopyLine } from '../../ui/copy.tsx'
import { Dialog, DialogButtons } from '../../ui/dialog.tsx'
import { ErrorNotice } from '../../ui/error-notice.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'

export type TestResult = Reply<'testSsoProvider'>

const results = {
  passed: ['Passed', 'good'],
  failed: ['Failed', 'bad'],
  not_tried: ['Not tried', 'plain'],
} as const satisfies Record<TestResult['checks'][number]['result'], readonly [string, Tone]>

const names = {
  settings: 'Settings',
  reachable: 'Reachable',
  keys: 'Keys',
  security: 'Security',
} as const satisfies Record<TestResult['checks'][number]['check'], string>

export function ProviderTest({ id, onClose }: { id: string; onClose: () => void }) {
  const test = useAction('testSsoProvider', ['listSsoProviders'])
  const provider = useCall('listSsoProviders').data?.providers.find((one) => one.id === id)
  const start = useEffectEvent(() => test.mutate({ params: { id } }))
  useEffect(() => start(), [])
  return (
    <Dialog title={`Test ${provider?.name ?? id}`} onClose={onClose} wide>
      <div className="flex flex-col gap-4">
        {provider !== undefined && <RedirectUri url={provider.callbackUrl} />}
        {test.error !== null && <ErrorNotice error={test.error} />}
        {test.data === undefined ? (
          test.isPending && <Skeleton rows={4} />
        ) : (
          <TestResults result={test.data} page="/operator/sso" />
        )}
        <DialogButtons>
          <Button busy={test.isPending} onClick={() => test.mutate({ params: { id } })}>
            Test again
          </Button>
          <Button look="primary" onClick={onClose}>
            Done
          </Button>
        </DialogButtons>
      </div>
    </Dialog>
  )
}

function RedirectUri({ url }: { url: string | null }) {
  if (url === null) {
    return <Notice tone="warn">This server has no public URL. Set BERTH_PUBLIC_URL first.</Notice>
  }
  return (
    <div className="flex flex-col gap-1 text-sm">
      <p className="font-medium">Redirect URI, to register at the provider</p>
      <CopyLine label="Redirect URI" text={url} />
    </div>
  )
}

/** `page`: where the tried sign-in leads in the end. */
export function TestResults({ result, page }: { result: TestResult; page: `/${string}` }) {
  const { checks, ok, testUrl } = result
  return (
    <>
      <ul className="flex flex-col gap-2 text-sm">
        {checks.map(({ check, result: outcome, detail }) => {
          const [label, tone] = results[outcome]
          return (
            <li key={check} className="grid grid-cols-[6rem_6.5rem_1fr] items-start gap-2 max-sm:grid-cols-2">
              <span className="font-medium">{names[check]}</span>
              <span>
                <Badge tone={tone}>{label}</Badge>
              </span>
              <span className="min-w-0 break-words text-muted max-sm:col-span-2">{detail}</span>
            </li>
          )
        })}
      </ul>
      {ok && testUrl !== null && (
        <p className="text-sm">
          The rest needs a browser:{' '}
          <a
            href={`${testUrl}&return=${encodeURIComponent(page)}`}
            target="_blank"
            rel="noopener"
            className="font-medium text-accent hover:underline"
          >
            try a sign-in in a new tab
          </a>
          . It changes nothing.
        </p>
      )}
    </>
  )
}
