// Customers at the checkout of the example `payments`: they come in a ramp, order, wait for the answer, think, and order again.
//
//   k6 run -e BASE_URLS=http://127.0.0.1:8081,http://127.0.0.1:8082 deploy/k6/checkout.js
//
// VUS        customers at the same time                                        [500]
// RAMP       until all of them are there, and until they have gone again       [30s]
// HOLD       how long all of them stay                                         [60s]
// BASE_URLS  the services, in turn; whoever is refused a connection asks the next one
// PRODUCTS   what is ordered; the first one is the favourite                   [9921]
// HOT        which share of the orders is for the favourite                    [0.25]
// SCARCE     the one product of these whose stock may end: there, 409 is an answer as well
// THINK      seconds between an answer and the next order, at the median       [0.1]
// LATENCY    milliseconds: 95 of 100 answers must be faster                    [5000]
// CHAOS      1 where services and lock nodes fail meanwhile: 503 is an answer then, and some orders have none
// RECORD     1 writes a line for each order to the console: see `record` below
//
// What it claims is in `thresholds`: every answer is one of those that are allowed, none is missing unless CHAOS is set, and
// the latency. k6 exits with 99 where that does not hold. What the answers were worth is in the database only:
// `scripts/load` compares.
import http from 'k6/http';
import exec from 'k6/execution';
import { check, sleep } from 'k6';
import { Counter } from 'k6/metrics';

const { VUS = '500', RAMP = '30s', HOLD = '60s', THINK = '0.1', LATENCY = '5000', HOT = '0.25' } = __ENV;
const services = (__ENV.BASE_URLS || 'http://127.0.0.1:8081').split(',');
const products = (__ENV.PRODUCTS || '9921').split(',').map(Number);
const scarce = Number(__ENV.SCARCE || -1);
const chaos = __ENV.CHAOS === '1';
const recording = __ENV.RECORD === '1';

/** The code of k6 for a connection that was refused: nothing was sent, so the order may be given to somebody else. */
const REFUSED = 1212;

const answers = chaos ? [200, 429, 503] : [200, 429];

export const options = {
  scenarios: {
    checkout: {
      executor: 'ramping-vus',
      startVUs: 0,
      stages: [
        { duration: RAMP, target: Number(VUS) },
        { duration: HOLD, target: Number(VUS) },
        { duration: RAMP, target: 0 },
      ],
      // Whoever has ordered waits for his answer.
      gracefulRampDown: '30s',
      gracefulStop: '30s',
    },
  },
  thresholds: {
    checks: ['rate==1'],
    http_req_duration: [`p(95)<${LATENCY}`],
    ...(chaos ? {} : { http_req_failed: ['rate==0'] }),
  },
  summaryTrendStats: ['min', 'med', 'p(95)', 'p(99)', 'max'],
  systemTags: ['status', 'method', 'error_code', 'check'],
};

http.setResponseCallback(http.expectedStatuses(...answers, 409));

const refused = new Counter('connections_refused');
const unanswered = new Counter('orders_unanswered');

export default function () {
  const number = exec.scenario.iterationInTest;
  // Nobody orders twice, so a sale tells which order it is of.
  const order = { product_id: favourite() ? products[0] : any(products), user_id: number + 1 };
  const started = Date.now();
  let attempt = 0;
  let response = send(services[number % services.length], order);
  while (response.error_code === REFUSED && attempt + 1 < services.length) {
    refused.add(1);
    attempt += 1;
    response = send(services[(number + attempt) % services.length], order);
  }
  const took = Date.now() - started;
  if (recording) record(started, took, order, response, (number + attempt) % services.length, attempt);
  judge(response, order);
  sleep(Number(THINK) * (0.5 + Math.random()));
}

const favourite = () => Math.random() < Number(HOT);

const any = (list) => list[Math.floor(Math.random() * list.length)];

function send(service, order) {
  return http.post(`${service}/v1/checkout`, JSON.stringify(order), {
    headers: { 'content-type': 'application/json' },
    // Longer than the service waits for a lock: who gives up does not know what became of his order.
    timeout: '15s',
  });
}

function judge(response, order) {
  if (response.status === 0) {
    unanswered.add(1);
    // The service died over it. It may have been sold, so it is not ordered again.
    if (chaos) return;
  }
  const allowed = order.product_id === scarce ? [...answers, 409] : answers;
  check(response, {
    [answers.join(' or ')]: ({ status }) => allowed.includes(status),
    'sold is what was ordered': (sold) => sold.status !== 200 || sold.json('user_id') === order.user_id,
    'busy says when to come back': (busy) => busy.status !== 429 || Number(busy.headers['Retry-After']) > 0,
  });
}

/** When it was ordered, for how long, what came of it, and by whom. Words with a space between, read by tests/src/bin/load. */
function record(started, took, order, response, service, attempts) {
  const stock = response.status === 200 ? response.json('stock') : '-';
  const { status, error_code: error } = response;
  console.log(`order ${started} ${took} ${order.user_id} ${order.product_id} ${status} ${stock} ${service} ${attempts} ${error}`);
}
