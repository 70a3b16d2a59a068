/** The page after the sign-in. */
export const overview = {
  title: 'Overview',
  lead: 'What your agents may do, and what needs you.',
  start: 'Get started',
  startLead: 'Four steps to the first request that is allowed because you said so.',
  steps: {
    secondFactor: 'Second factor',
    secondFactorText: 'Nobody acts for you with your password alone.',
    mandate: 'Write a mandate',
    mandateText: 'What an agent may do, up to which amount, with whom.',
    mandateAction: 'New mandate',
    gateway: 'Put a gateway in front of an API',
    gatewayText: 'The agent calls the gateway in its place and never sees your credential.',
    gatewayAction: 'New gateway',
    request: 'See the first request',
    requestText: 'Allowed, denied or waiting for you: each one is in the evidence.',
    requestAction: 'Evidence',
  },
  waiting: 'Waiting for you',
  waitingText: (count: number) =>
    count === 1 ? 'One request waits for your answer.' : `${count} requests wait for your answer.`,
  waitingNone: 'No request waits for your answer.',
  waitingAction: 'Answer',
};
