"""The kinds of change in the world that an answer may claim, and the words for them."""

from __future__ import annotations

from typing import NamedTuple


class Deed(NamedTuple):
    """A kind of change in the world, and the words for it."""

    name: str
    """Its verb, as in "nothing was sent": see `unsupported_claims`."""
    participles: str
    """In English, as a pattern."""
    chinese: str
    """As a pattern."""
    needs_object: bool = False
    """Whether the same words are said of the answer's own text: then something outside of it must
    be named in the sentence, such as a file."""
    tools: str = ""
    """Words in the name or description of a tool that does so, as a pattern."""


DEEDS = (
    Deed(
        "send",
        "sent|e-?mailed|texted|forwarded|replied to|messaged|submitted|posted|published|shared|"
        "delivered|mailed|shipped|invited",
        "发送|发出|发给|发布|发表|转发|寄出|寄给|回复|提交|群发|邀请|分享|共享|发",
        tools="send|mail|message|post|publish|submit|notif|share|invite|发|寄|通知",
    ),
    Deed(
        "save",
        "saved|stored|backed up|archived|uploaded|downloaded|exported|imported|synced|"
        "synchroni[sz]ed",
        "保存|存储|存到|存入|备份|归档|上传|下载|导出|导入|同步|存",
        tools="save|stor|writ|back|archiv|upload|download|export|import|sync|file|存|写|备份|上传"
        "|下载",
    ),
    Deed(
        "delete",
        "deleted|erased|wiped|uninstalled|unsubscribed|trashed|emptied",
        "删除|删掉|清空|卸载|退订|移除|清除|删",
        tools="delet|remov|eras|clear|clean|wipe|uninstall|forget|trash|删|清|卸",
    ),
    Deed(
        "cancel",
        "cancell?ed|declined|revoked|rejected",
        "取消|撤销|撤回|退掉|退订",
        tools="cancel|revok|declin|delet|remov|取消|撤",
    ),
    Deed(
        "book",
        "booked|reserved|ordered|purchased|bought|paid|transferred|refunded|rebooked|renewed|"
        "charged|signed you up|registered you|enrolled you|checked you in",
        "预订|预定|预约|订购|下单|购买|支付|付款|转账|付清|续费|缴费|报名|挂号|订|买|付|转",
        tools="book|reserv|order|buy|purchas|pay|transfer|refund|register|sign|订|买|付|转|约",
    ),
    Deed(
        "schedule",
        "scheduled|rescheduled|set up|postponed|set",
        "安排|设置|设定|设|定|改到|推迟|加入日历|加到日历",
        needs_object=True,
        tools="schedul|remind|calendar|event|alarm|timer|appointment|meeting|日程|提醒|闹钟|日历",
    ),
    Deed(
        "call",
        "called|phoned|rang|notified|contacted|informed|alerted|told",
        "打电话|致电|联系|通知|告知|告诉",
        tools="call|phone|notif|contact|inform|alert|message|send|mail|电话|通知|联系|发",
    ),
    Deed(
        "run",
        "installed|deployed|restarted|rebooted|executed|launched|turned (?:on|off|up|down)|"
        "switched (?:on|off)|shut down|locked|unlocked|enabled|disabled|activated|deactivated|"
        "updated|upgraded|started|stopped|closed|opened|blocked|muted|paused|connected|reset|"
        "changed|adjusted|configured|fixed|turned .{1,30}? (?:on|off|up|down)",
        "安装|部署|重启|执行|启动|打开|关闭|关掉|开启|停止|锁上|锁好|启用|禁用|升级|更新|运行|"
        "调到|调成|调高|调低|调|改成|改为|修改|更改|重置|修复|屏蔽|静音|暂停|连接|配置|锁",
        needs_object=True,
        tools="run|exec|script|shell|install|deploy|restart|turn|switch|lock|enabl|updat|start|stop"
        "|light|device|home|set|运行|执行|装|开|关|设",
    ),
    Deed(
        "write",
        "created|written|wrote|added|recorded|logged|edited|renamed|moved|copied|filed|removed|"
        "printed|put|placed|marked|entered|cleared|merged|committed|pushed|replaced",
        "创建|新建|建立|写入|添加|加入|加到|记录|编辑|重命名|移动|移到|复制|打印|标记|填写|填好|"
        "录入|合并|推送|替换|放进|放到|建|加|移",
        needs_object=True,
        tools="creat|writ|add|record|log|edit|renam|mov|cop|fil|note|print|mark|enter|append|remov|"
        "updat|commit|push|建|写|加|记|改|移|复制|打印",
    ),
)
