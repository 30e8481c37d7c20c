/** The terms that owners accept before their accounts order, and publishing a new version. */
import type { Reply } from '../../../src/client/client.ts'
import { localTime } from '../../../src/view/time.ts'
import { useCall } from '../../api/query.ts'
import { useSignInWays } from '../../api/sign-in.ts'
import type { ControlProps } from '../../form/entry.ts'
import { FieldDialog } from '../../form/field-dialog.tsx'
import { TermsText } from '../../shell/terms-text.tsx'
import { Answer } from '../../ui/answer.tsx'
import { Button, TextLink } from '../../ui/button.tsx'
import { Card, Facts } from '../../ui/card.tsx'
import { useDialog } from '../../ui/dialog.tsx'
import { Empty } from '../../ui/empty.tsx'
import { TextArea } from '../../ui/field.tsx'
import { Notice } from '../../ui/notice.tsx'
import { Page } from '../../ui/page.tsx'
import { Skeleton } from '../../ui/skeleton.tsx'

type Terms = Reply<'getTerms'>['terms']

const NO_PEOPLE = 'People cannot sign in as themselves, so nobody could accept terms. Set BERTH_PUBLIC_URL first.'
const CONFIRMATION = 'publish'

export function OperatorTermsPage() {
  const newest = useCall('getTerms')
  const ways = useSignInWays()
  const dialog = useDialog()
  const terms = newest.data?.terms
  const publish = (
    <Button
      look="primary"
      disabledReason={ways.data?.people === false ? NO_PEOPLE : undefined}
      disabled={terms === undefined}
      onClick={() => dialog.open((close) => <PublishDialog terms={terms ?? null} onClose={close} />)}
    >
      Publish a version
    </Button>
  )
  return (
    <Page
      intro="New orders of an account need an owner who has accepted the newest version. What runs goes on, and your own account needs none."
      actions={publish}
    >
      <Answer of={newest} skeleton={<Skeleton rows={8} />}>
        {({ terms: current }) => (current === null ? <None /> : <Newest terms={current} />)}
      </Answer>
      {dialog.shown}
    </Page>
  )
}

function None() {
  return <Empty title="No terms">Accounts order without accepting anything.</Empty>
}

function Newest({ terms }: { terms: NonNullable<Terms> }) {
  return (
    <>
      <Card title={`Version ${terms.version}`}>
        <Facts
          facts={[
            ['Published', localTime(terms.createdAt)],
            [
              'Shown at',
              <TextLink key="page" to="/terms">
                /terms
              </TextLink>,
            ],
          ]}
        />
      </Card>
      <Card title="Text">
        <div className="max-w-prose">
          <TermsText body={terms.body} />
        </div>
      </Card>
    </>
  )
}

function PublishDialog({ terms, onClose }: { terms: Terms; onClose: () => void }) {
  return (
    <FieldDialog
      operation="publishTerms"
      refreshes={['getTerms', 'getPerson', 'listAudit']}
      title={terms === null ? 'Publish terms' : 'Publish a new version of the terms'}
      action="Publish"
      look="danger"
      wide
      word={CONFIRMATION}
      before={terms ?? undefined}
      fields={[['body', { label: 'Text', hint: 'Plain text. An empty line begins a paragraph.', as: LongText }]]}
      done={({ version }) => `Published version ${version}`}
      onClose={onClose}
    >
      <Notice tone="warn">
        From then on, new rentals, volumes, jobs and deployments of every account are refused until one of its owners
        accepts this version. What runs goes on. A version cannot be withdrawn, only replaced by another.
      </Notice>
    </FieldDialog>
  )
}

function LongText(props: ControlProps) {
  return <TextArea {...props} rows={14} aria-required className="sm:col-span-full" />
}
